"""What the command gives a shell: standard streams in the place of files, completions and the manual page."""

import json
import os
import re
import shutil
import subprocess
import unittest

from support import TOOL, ToolTest, main, npy_bytes, read_npy, write_npy

SUBCOMMANDS = ["run", "dump", "bench", "ops", "cache", "warm", "bundle", "doctor", "completion", "man"]


class StandardStreams(ToolTest):
    def piped(self, *arguments, given=b""):
        done = subprocess.run([os.path.abspath(TOOL), *arguments], cwd=self.folder, input=given, capture_output=True, timeout=60)
        return done.returncode, done.stdout, done.stderr.decode()

    def setUp(self):
        super().setUp()
        write_npy(self.folder / "x.npy", "f4", [-1.0, 2.0, 3.0])
        self.x = (self.folder / "x.npy").read_bytes()

    def values(self, content):
        (self.folder / "read.npy").write_bytes(content)
        return read_npy(self.folder / "read.npy")[1]

    def test_in_and_out(self):
        code, out, report = self.piped("run", "relu(x)", "x=@-", "-o", "-", "--device", "cpu", given=self.x)
        self.assertEqual((code, self.values(out)), (0, [0, 2, 3]))
        self.assertIn("out: f32 [3] -> -", report)

    def test_the_json_report_makes_room_too(self):
        code, out, report = self.piped("run", "return x + 1, x > 0", "x=f16@-", "-o", "out1=-", "--json", "--device", "cpu", given=self.x)
        self.assertEqual((code, self.values(out)), (0, [False, True, True]))
        self.assertEqual([result["file"] for result in json.loads(report)["results"]], [None, "-"])

    def test_more_than_a_pipe_holds(self):
        count = 300_000
        given = npy_bytes(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count},), }}", bytes(i % 251 for i in range(count)))
        code, out, _ = self.piped("run", "x + 1", "x=@-", "-o", "-", "--device", "cpu", given=given)
        self.assertEqual((code, self.values(out)), (0, [i % 251 + 1 for i in range(count)]))

    def test_a_file_of_that_name_has_a_path(self):
        (self.folder / "-").write_bytes(self.x)
        self.assertIn("max 3", self.succeed("run", "x", "x=@./-", "--device", "cpu"))

    def test_refusals(self):
        self.fail_with(2, ["operand 'x': standard input: is no .npy file"], "run", "x", "x=@-", "--device", "cpu")
        self.fail_with(2, ["operands 'x' and 'y' both read standard input"], "run", "x + y", "x=@-", "y=@-")
        self.fail_with(2, ["-o -: this file is named twice"], "run", "return x, x", "x=f32[2]", "-o", "-", "-o", "-")


class Completion(ToolTest):
    def test_names_every_subcommand_and_option(self):
        scripts = {shell: self.succeed("completion", shell) for shell in ("bash", "zsh", "fish")}
        for command in SUBCOMMANDS:
            options = set(re.findall(r"^ +(?:-\w,)?--([a-z-]+)", self.succeed(command, "--help"), re.M))
            self.assertIn("help", options)
            for shell, script in scripts.items():
                self.assertRegex(script, rf"\b{command}\b", shell)
                for option in options:
                    self.assertRegex(script, rf"(--|-l ){option}\b", (shell, command))

    def completed(self, *words):
        script = (f"source <({os.path.abspath(TOOL)} completion bash); COMP_WORDS=({' '.join(words)}); "
                  f"COMP_CWORD={len(words) - 1}; _epifuse; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    @unittest.skipUnless(shutil.which("bash"), "no bash")
    def test_bash_completes(self):
        self.assertEqual(self.completed("epifuse", "be"), ["bench"])
        self.assertEqual(self.completed("epifuse", "run", "--js"), ["--json"])
        self.assertEqual(self.completed("epifuse", "cache", "ve"), ["verify"])
        self.assertEqual(self.completed("epifuse", "run", "--nothing"), [])
        write_npy(self.folder / "conv.npy", "f4", [1.0])
        self.assertEqual(self.completed("epifuse", "run", "chain", "x=@co"), ["conv.npy"])

    def test_other_shells_are_refused(self):
        self.fail_with(2, ["completion: found 'csh'; expected bash, zsh or fish"], "completion", "csh")


class Manual(ToolTest):
    def test_says_what_help_says(self):
        page = self.succeed("man")
        self.assertTrue(page.startswith(".TH EPIFUSE 1"))
        for command in SUBCOMMANDS:
            self.assertRegex(page, rf"(?m)^\.SS {command}$")
        self.assertIn("\n.SS cache verify\n", page)
        self.assertIn("\n.B \\-o, \\-\\-output FILE\n", page)

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_is_roff(self):
        done = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-z"], input=self.succeed("man"), capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, [line for line in done.stderr.splitlines() if "cannot adjust" not in line]), (0, []))


if __name__ == "__main__":
    main()
