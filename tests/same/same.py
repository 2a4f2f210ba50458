#!/usr/bin/env python3
"""./dev same REF: whether this tree plans, emits and compiles what the commit REF does.

    ./dev same HEAD                           nothing differs: silent but for the count, exit status 0
    ./dev same REF --by source                sources and launch numbers; classes may be printed otherwise, one for one
    ./dev same REF --by code                  machine code, resources and launch numbers; names and comments may differ
    ./dev same REF --by plan --names FILE     classes and launch numbers, with old words replaced ("old new" on each line)
    ./dev same REF --cases 'softmax|level2 19' --random 500
    ./dev same REF --list FILE                instead a page: the benchmarks' kernels whose code differs, with instructions counted

Both commits' epifuse_describe (describe.cpp) answer the same lines: the cases of the benchmarks on five architectures, the
launches that the fuzzer's corpus stands for, and random ones. What differs is printed case by case, old beside new;
build/same/report.json holds all of it. REF needs tests/same of its own.
"""

import argparse
import collections
import difflib
import hashlib
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import cases

ROOT = cases.ROOT
FOLDER = ROOT / "build" / "same"
NUMBERS = ("blocks", "threads", "shared", "workspace", "zeroed", "parameters")
LEVELS = {"plan": ("class",), "source": ("source",), "code": (), "all": ("class", "source")}
SHOWN_LINES = 24


# ---- building


def run(*command, **more):
    return subprocess.run(command, check=True, text=True, **more)


def commit_of(reference):
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}"], cwd=ROOT, capture_output=True, text=True
    )
    if found.returncode:
        raise SystemExit(f"same: git knows no commit '{reference}'")
    return found.stdout.strip()


def build_in(tree, jobs):
    """The describer of a tree, built beside it with the compiler cache's entries of other trees."""
    environment = os.environ | {"CCACHE_BASEDIR": str(FOLDER.parent.parent), "CCACHE_NOHASHDIR": "1"}
    quiet = {"env": environment, "cwd": tree, "stdout": subprocess.DEVNULL}
    run("cmake", "--preset", "ci", "--log-level=WARNING", **quiet)
    run("cmake", "--build", "build-ci", "-j", str(jobs), "--target", "epifuse_describe", **quiet)
    return tree / "build-ci" / "tests" / "same" / "epifuse_describe"


def old_describer(reference, jobs):
    commit = commit_of(reference)
    tree = FOLDER / commit[:12]
    if not (tree / "CMakeLists.txt").exists():
        run("git", "worktree", "prune", cwd=ROOT)
        run("git", "worktree", "add", "--quiet", "--detach", "--force", str(tree), commit, cwd=ROOT)
    if not (tree / "tests" / "same" / "describe.cpp").exists():
        raise SystemExit(f"same: {reference} is older than tests/same and cannot describe its launches")
    return build_in(tree, jobs)


# ---- launches


def all_lines(describer, options):
    """Lines of JSON, those of benchmarks first."""
    lines = cases.lines(options.architectures)
    corpus = ROOT / "tests" / "fuzz" / "corpus" / "plan"
    for arguments in (["corpus", str(corpus)], ["draw", "--count", str(options.random), "--seed", str(options.seed)]):
        lines += run(str(describer), *arguments, stdout=subprocess.PIPE).stdout.splitlines()
    if options.cases:
        lines = [line for line in lines if re.search(options.cases, json.loads(line)["id"])]
    return lines


def answers(describer, what, lines):
    """The describer's answers, in order, while it works."""
    with tempfile.TemporaryFile("w+") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.seek(0)
        with subprocess.Popen([str(describer), what], stdin=file, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                yield json.loads(line)
        if process.returncode:
            raise SystemExit(f"same: {describer} {what} ended with status {process.returncode}")


# ---- comparing

WORD = re.compile(r"[A-Za-z_]\w*")
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\.?\d[\w.]*(?:[eEpP][+-]?\w+)?|\S')
ASSERTION = re.compile(r'(static_assert\([^;]*?), "[^"\n]*"\)')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def read_names(path):
    """Words of the old commit and those that stand for them now."""
    if path is None:
        return {}
    pairs = (line.split() for line in pathlib.Path(path).read_text().splitlines() if line.strip())
    return {old: new for old, new in pairs}


def renamed(text, names):
    return WORD.sub(lambda word: names.get(word[0], word[0]), text) if names else text


# Words before another word that are no type of it.
NO_TYPES = {"return", "else", "case", "goto", "sizeof", "operator", "new", "delete"}


def scoped(source):
    """A source without comments and messages of assertions as declarations: the text up to each brace that ends one in the first column."""
    return re.split(r"\n(?=\})", ASSERTION.sub(r"\1)", COMMENT.sub(" ", source)))


class Declaration:
    """The tokens of a declaration; by token: what kind of name it is, and whether it is declared there."""

    def __init__(self, text):
        self.tokens = TOKEN.findall(text)
        self.kinds, self.declared = [], []
        self.of_members = re.search(r"^(?:template <[^>]*>\s*)?(?:struct|class|enum)\b[^;(]*\{", text.lstrip("} ;\n"), re.M) is not None
        braces = parentheses = 0
        for i, token in enumerate(self.tokens):
            braces += (token == "{") - (token == "}" and braces > 0)
            parentheses += (token == "(") - (token == ")")
            before, after = self.tokens[i - 1] if i else "", self.tokens[i + 1] if i + 1 < len(self.tokens) else ""
            arrow = before == ">" and i > 1 and self.tokens[i - 2] == "-"
            is_member = before == "." or arrow
            typed = (WORD.fullmatch(before) and before not in NO_TYPES) or (before in ("&", "*", ">") and not arrow)
            listed = before == "," and parentheses == 0 and after in (",", ";", "=")
            listed = listed or (self.of_members and braces == 1 and before in ("{", ",") and after in (",", "}"))  # of an enum
            follows = before == ")" and after in ("{", ";") and parentheses == 0
            self.declared.append(not is_member and bool(typed or listed or follows))
            inner = braces > 1 or parentheses > 0 if self.of_members else braces > 0 or parentheses > 0
            kind = "member" if is_member or (self.of_members and braces == 1 and parentheses == 0 and self.declared[-1]) else "name"
            self.kinds.append("local" if kind == "name" and inner and self.declared[-1] else kind)
        own = {token for token, kind, here in zip(self.tokens, self.kinds, self.declared) if kind == "member" and here}
        self.kinds = ["member" if kind == "name" and token in own else kind for token, kind in zip(self.tokens, self.kinds)]


class Renames:
    """Whether two sources differ in names and comments alone. In one source a name is renamed one for one: members, what stands outside of
    functions, and, function by function, locals. Both names must be declared in their sources, so that no function of CUDA passes for
    another."""

    def __init__(self):
        self.parsed, self.matched = {}, {}

    def declaration(self, text):
        if text not in self.parsed:
            self.parsed[text] = Declaration(text)
        return self.parsed[text]

    def pairs(self, old_text, new_text):
        """The pairs of words of a declaration by kind, those of locals apart, and what it declares; None where more than words differs."""
        old, new = self.declaration(old_text), self.declaration(new_text)
        if len(old.tokens) != len(new.tokens) or old.kinds != new.kinds:
            return None
        local_words = {token for token, kind in zip(old.tokens, old.kinds) if kind == "local"}
        found, declared = {"member": {}, "name": {}, "local": {}}, set()
        unqualified = {}  # new -> old
        for a, b, kind, is_declared in zip(old.tokens, new.tokens, old.kinds, old.declared):
            if not (WORD.fullmatch(a) and WORD.fullmatch(b)):
                if a != b:
                    return None
                continue
            if kind != "member":
                kind = "local" if a in local_words else "name"
                if unqualified.setdefault(b, a) != a:
                    return None
            if found[kind].setdefault(a, b) != b:
                return None
            if is_declared:
                declared.add((a, b))
        return found, declared

    def match(self, old_source, new_source):
        old, new = scoped(old_source), scoped(new_source)
        if len(old) != len(new):
            return False
        results = []
        for key in zip(old, new):
            if key not in self.matched:
                self.matched[key] = self.pairs(*key)
            if self.matched[key] is None:
                return False
            results.append(self.matched[key])
        declared = set().union(*(names for _, names in results))
        outside = {}
        for kind in ("name", "member"):
            forth, back = {}, {}
            for found, _ in results:
                for a, b in found[kind].items():
                    if forth.setdefault(a, b) != b or back.setdefault(b, a) != a or (a != b and (a, b) not in declared):
                        return False
            outside[kind] = forth
        # A local that has the name of something else, too, may stand for it.
        functions = outside["name"]
        return all(functions.get(a, b) == b for found, _ in results for a, b in found["local"].items())


def sections(cubin):
    """Code and constants of an ELF file by the kind of section, whatever the functions' names are."""
    offset, = struct.unpack_from("<Q", cubin, 40)
    size, count, names_at = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, offset + i * size) for i in range(count)]
    names = headers[names_at][4]
    found = []
    for name, kind, _, _, start, length in headers:
        text = cubin[names + name : cubin.index(b"\0", names + name)].decode()
        what = next((one for one in (".text", ".nv.constant") if text.startswith(one)), None)
        # What the launch passes stands in bank 0, which holds no data of its own. Bank 4 has addresses of the source's
        # named constants: kernels have them as numbers in their code and never read them from memory.
        if what and kind == 1 and not text.startswith((".nv.constant0", ".nv.constant4")):
            found.append((what, hashlib.sha256(cubin[start : start + length]).hexdigest()))
    return sorted(found)


def summary_of(compiled):
    if "error" in compiled:
        return {"error": "does not compile"}
    kept = {key: compiled[key] for key in ("registers", "shared", "spilled")}
    return kept | {"code": sections(bytes.fromhex(compiled["cubin"]))}


class Comparison:
    """What differs, by case."""

    def __init__(self, options, names):
        self.options, self.names = options, names
        self.renames = Renames()
        self.differences = []  # (id, what, old, new)
        self.to_compile = {}  # (architecture, old source, new source) -> ids
        self.matched = {}  # likewise -> whether only names differ
        self.counts = collections.Counter()
        self.classes = {}  # (side, chain, its class there) -> its class on the other side

    def one_to_one(self, launch, old, new):
        """Where classes may be printed otherwise, still the same launches of a chain share a kernel."""
        pairs = (("old", old["class"], new["class"]), ("new", new["class"], old["class"]))
        return all(
            self.classes.setdefault((side, launch["chain"], own), other) == other for side, own, other in pairs
        )

    def add(self, launch, old, new):
        self.counts["launches"] += 1
        self.counts["refused"] += "error" in new
        by = self.options.by
        if "error" in old or "error" in new:
            before, after = renamed(old.get("error", "planned"), self.names), new.get("error", "planned")
            if before != after and (by != "code" or "error" not in old or "error" not in new):
                self.differences.append((launch["id"], "error", before, after))
            return
        for key in NUMBERS:
            if old.get(key) != new.get(key):
                self.differences.append((launch["id"], key, str(old.get(key)), str(new.get(key))))
                return
        for key in LEVELS[by]:
            before = renamed(old.get(key, ""), self.names)
            if before != new.get(key, ""):
                self.differences.append((launch["id"], key, before, new[key]))
                return
        if "class" not in LEVELS[by] and not self.one_to_one(launch, old, new):
            self.differences.append((launch["id"], "launches that share its kernel", old["class"], new["class"]))
            return
        before, after = renamed(old.get("source", ""), self.names), new.get("source", "")
        if by == "code" and before != after:
            key = (launch["architecture"], before, after)
            self.counts["sources that differ"] += 1
            if key not in self.matched:
                self.matched[key] = self.renames.match(before, after)
            if not self.matched[key]:
                self.to_compile.setdefault(key, []).append(launch["id"])

    def compile(self, old_describer, new_describer, say):
        if not self.to_compile:
            return
        say(f"compiling {len(self.to_compile)} pairs of sources")
        keys = list(self.to_compile)
        sides = (
            [json.dumps({"architecture": architecture, "source": sources[side]}) for architecture, *sources in keys]
            for side in (0, 1)
        )
        results = (answers(one, "code", lines) for one, lines in zip((old_describer, new_describer), sides))
        for done, (key, old, new) in enumerate(zip(keys, *results), 1):
            before, after = summary_of(old), summary_of(new)
            if before != after:
                for name in self.to_compile[key]:
                    self.differences.append((name, "code", text_of(before), text_of(after)))
            say(f"compiled {done} of {len(keys)} pairs", done == len(keys))


def text_of(summary):
    return "\n".join(f"{key} {value}" for key, value in summary.items())


# ---- telling


def beside(old, new):
    """What differs of two texts, old beside new."""
    if "\n" not in old + new:
        return [f"    - {old}", f"    + {new}"]
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "old", "new", lineterm="", n=1)
    return [f"    {line}" for line in list(lines)[2:]]


def tell(differences, shown):
    for name, what, old, new in differences[:shown]:
        print(f"{name}: {what}")
        lines = beside(old, new)
        print(*lines[:SHOWN_LINES], sep="\n")
        if len(lines) > SHOWN_LINES:
            print(f"    ({len(lines) - SHOWN_LINES} more lines)")
    if len(differences) > shown:
        print(f"({len(differences) - shown} more cases differ: {FOLDER / 'report.json'})")


def progress(text, is_last=False):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="\n" if is_last else "", file=sys.stderr, flush=True)


def compare(old_describer, new_describer, options, say=progress):
    lines = all_lines(new_describer, options)
    comparison = Comparison(options, read_names(options.names))
    both = zip(lines, answers(old_describer, "launches", lines), answers(new_describer, "launches", lines))
    for done, (line, old, new) in enumerate(both, 1):
        comparison.add(json.loads(line), old, new)
        if done % 100 == 0 or done == len(lines):
            say(f"described {done} of {len(lines)} launches", done == len(lines))
    if options.by == "code":
        comparison.compile(old_describer, new_describer, say)
    return comparison


def architectures_of(text):
    """Numbers of a list such as "sm_80,90"."""
    numbers = [word.removeprefix("sm_") for word in text.split(",")]
    for number in numbers:
        if not number.isdigit():
            raise argparse.ArgumentTypeError(f"'{number}' is no architecture; a list such as 80,90 is expected")
    return [int(number) for number in numbers]


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev same", description=__doc__.splitlines()[0])
    parser.add_argument("ref", metavar="REF", help="the commit to compare this tree with")
    parser.add_argument("--by", choices=LEVELS, default="all", help="what must be equal (default: plan and source)")
    parser.add_argument("--names", metavar="FILE", help="words of REF and those that stand for them now, a pair on each line")
    parser.add_argument("--cases", metavar="REGEX", help="only launches whose name matches")
    parser.add_argument(
        "--architectures",
        metavar="LIST",
        type=architectures_of,
        default=cases.ARCHITECTURES,
        help="of the benchmarks' cases, as 90 or sm_90 (default: 75,80,90,100,120)",
    )
    parser.add_argument("--random", type=int, default=10_000, metavar="N", help="random launches (default: 10000)")
    parser.add_argument("--seed", type=int, default=1, help="of the random launches (default: 1)")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="cases to print (default: 10)")
    parser.add_argument(
        "--list", type=pathlib.Path, metavar="FILE", help="write the benchmarks' kernels whose machine code differs, with counts, and compare no more"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compiler processes (default: all cores)")
    return parser.parse_args(arguments)


def list_changed(options, old, new):
    import counts  # which reads this module

    # One architecture: the one that was named, or the first on which the benchmarks were measured.
    arch = 90 if options.architectures == cases.ARCHITECTURES else options.architectures[0]
    differing = counts.write_page(options.list, commit_of(options.ref)[:7], old, new, arch)
    print(f"{differing} kernels of the benchmarks' cases for sm_{arch} differ from {options.ref}: {options.list}")
    return 0


def main(arguments=None):
    options = parse(arguments)
    FOLDER.mkdir(parents=True, exist_ok=True)
    old = old_describer(options.ref, options.jobs)
    new = build_in(ROOT, options.jobs)
    if options.list:
        return list_changed(options, old, new)
    comparison = compare(old, new, options)
    tell(comparison.differences, options.show)
    report = [dict(zip(("case", "what", "old", "new"), one)) for one in comparison.differences]
    (FOLDER / "report.json").write_text(json.dumps(report, indent=1))
    counts = comparison.counts
    print(
        f"{counts['launches']} launches, {counts['refused']} of them refused; {len(report)} differ from {options.ref} "
        f"(seed {options.seed} of the random ones)"
    )
    return 1 if report else 0


if __name__ == "__main__":
    sys.exit(main())
