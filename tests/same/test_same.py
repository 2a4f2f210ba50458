#!/usr/bin/env python3
"""./dev same sees what it is for: a tree whose policy differs by one constant plans other kernels, and is told from one that does not.

    test_same.py DESCRIBER      the one that was built of this tree
"""

import contextlib
import io
import shutil
import subprocess
import sys
import unittest

import cases
import same

DESCRIBER = None
CHANGED = same.FOLDER / "changed"
OPTIONS = ["HEAD", "--architectures", "90", "--random", "300"]


def compared(old, new, *options):
    comparison = same.compare(old, new, same.parse([*OPTIONS, *options]), say=lambda *_: None)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        same.tell(comparison.differences, 3)
    return comparison, told.getvalue()


def describer_with(old, new):
    """That of a copy of this tree in which the policy's entry `old` is `new`."""
    files = subprocess.run(["git", "ls-files"], cwd=cases.ROOT, capture_output=True, text=True, check=True).stdout
    for name in files.splitlines():
        source, target = cases.ROOT / name, CHANGED / name
        if not source.is_file():
            continue
        text = source.read_bytes()
        if name == "src/plan/policy.def":
            assert text.count(old) == 1, f"policy.def holds '{old.decode()}' {text.count(old)} times"
            text = text.replace(old, new)
        if not target.exists() or target.read_bytes() != text:  # unchanged files are not compiled again
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
            shutil.copymode(source, target)
    return same.build_in(CHANGED, same.os.cpu_count())


class Same(unittest.TestCase):
    def test_a_tree_is_what_it_is(self):
        comparison, told = compared(DESCRIBER, DESCRIBER)
        self.assertEqual(comparison.differences, [])
        self.assertEqual(told, "")
        self.assertGreater(comparison.counts["launches"], 900)
        self.assertLess(comparison.counts["refused"], 0.1 * comparison.counts["launches"])

    def test_one_changed_constant_of_the_policy_is_caught(self):
        other = describer_with(b"EPIFUSE_POLICY(lane_steps, 8,", b"EPIFUSE_POLICY(lane_steps, 4,")
        for level in ("plan", "source", "code"):
            comparison, told = compared(other, DESCRIBER, "--by", level, "--cases", "reductions|random reduction 1.$")
            names = [name for name, *_ in comparison.differences]
            self.assertTrue(any(name.startswith("reductions ") for name in names), f"by {level}")
            self.assertIn("    - ", told)
            self.assertIn("    + ", told)

    def test_names_may_differ_where_words_are_compared(self):
        renames = same.Renames()
        self.assertTrue(renames.match("void f() {\nint lap = g(1); // a lap\n}", "void f() {\nint pass = g(1); // one pass\n}"))
        self.assertFalse(renames.match("void f() {\nint lap = g(2);\n}", "void f() {\nint pass = g(3);\n}"))
        self.assertFalse(renames.match("void f() {\nint lap = g(lap);\n}", "void f() {\nint pass = g(other);\n}"))

    def test_locals_of_two_functions_take_different_names(self):
        old = "void f(int part) {\nuse(part);\n}\nvoid g(int part) {\nuse(part);\n}"
        self.assertTrue(same.Renames().match(old, "void f(int chunk) {\nuse(chunk);\n}\nvoid g(int segment) {\nuse(segment);\n}"))
        self.assertFalse(same.Renames().match(old, "void f(int chunk) {\nuse(chunk);\n}\nvoid g(int segment) {\nuse(chunk);\n}"))

    def test_what_stands_outside_of_functions_has_one_name(self):
        old = "int kPart = 1;\nvoid f() {\nuse(kPart);\n}\nvoid g() {\nuse(kPart);\n}"
        self.assertTrue(same.Renames().match(old, old.replace("kPart", "kChunk")))
        self.assertFalse(same.Renames().match(old, "int kChunk = 1;\nvoid f() {\nuse(kChunk);\n}\nvoid g() {\nuse(kSegment);\n}"))

    def test_members_have_one_name(self):
        old = "struct P {\nint part;\n};\nvoid f(P p, P q) {\np.part = q.part;\n}"
        self.assertTrue(same.Renames().match(old, old.replace("part", "chunk")))
        self.assertFalse(same.Renames().match(old, "struct P {\nint chunk;\n};\nvoid f(P p, P q) {\np.chunk = q.segment;\n}"))

    def test_functions_of_cuda_are_no_names(self):
        self.assertFalse(same.Renames().match("void f() {\nx = fminf(a, b);\n}", "void f() {\nx = fmaxf(a, b);\n}"))
        self.assertFalse(same.Renames().match("void f(int a, int b) {\na = a - b;\n}", "void f(int a, int b) {\na = b - a;\n}"))


if __name__ == "__main__":
    DESCRIBER = sys.argv.pop(1)
    unittest.main()
