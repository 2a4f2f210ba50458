"""What all subcommands share: help, version, colours, closed outputs; and ops, cache, doctor."""

import json
import os
import pty
import re
import shlex
import subprocess
import tempfile

from support import TOOL, ToolTest, epifuse, main, read_npy

# One of each subcommand that prints something, and one of each that fails.
GOOD = [["ops"], ["--help"], ["run", "--help"], ["cache", "info", "--help"], ["--version"], ["run", "x", "x=f32[4]", "--device", "cpu"],
        ["run", "x", "x=f32[4]", "--device", "cpu", "--json"], ["dump", "x", "x=f32[4]"], ["bench", "x", "x=f32[4]", "--device", "cpu",
        "--seconds", "0.01"], ["doctor"], ["doctor", "--json"], ["cache", "info"], ["cache", "verify", "--json"], ["ops", "--markdown"],
        ["warm", "list", "--device", "cpu"]]
BAD = [(["run", "foo(", "x=f32[4]"], 2), (["dump", "foo(", "x=f32[4]"], 2), (["bench", "foo(", "x=f32[4]"], 2), (["ops", "--nope"], 2),
       (["nope"], 2), ([], 2), (["cache", "nope"], 2), (["doctor", "--json=5"], 2), (["warm", "bad"], 2), (["warm", "missing"], 2), (["bundle", "missing"], 2), (["bundle", "--list", "missing"], 2),
       (["run", "x", "x=f32[4]", "--seed", "abc"], 2), (["run", "x", "x=f32[4]", "--device", "cuda:99"], 1)]


def on_a_terminal(arguments, env):
    """What the command writes when standard output and error are a terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([os.path.abspath(TOOL), *arguments], stdin=follower, stdout=follower, stderr=follower, env=env)
    os.close(follower)
    text = b""
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:  # Linux: the other side is closed
            break
        if not piece:
            break
        text += piece
    os.close(leader)
    process.wait(timeout=60)
    return text.decode()


class Help(ToolTest):
    def test_every_help_shows_examples(self):
        for command in ([], ["run"], ["dump"], ["bench"], ["ops"], ["cache"], ["cache", "info"], ["warm"], ["bundle"], ["doctor"], ["completion"], ["man"]):
            with self.subTest(command=command):
                text = self.succeed(*command, "--help")
                self.assertIn("Example", text)
                self.assertIn("epifuse " + " ".join(command), text)

    def test_the_examples_of_dump_and_bench_parse(self):
        for command in ("run", "bench", "dump"):
            for line in self.succeed(command, "--help").splitlines():
                match = re.match(rf'  epifuse {command} "(.*?)"(.*?)(\||$)', line)
                if match is None or "@" in line:
                    continue
                operands = [a for a in shlex.split(match[2]) if "=" in a]
                with self.subTest(line=line):
                    self.succeed("dump", match[1], *operands, "--emit", "ir")

    def test_version(self):
        with open(os.path.join(os.path.dirname(__file__), "..", "..", "VERSION"), encoding="utf-8") as file:
            self.assertEqual(self.succeed("--version"), f"epifuse {file.read().strip()}\n")
        self.assertEqual(self.succeed("-V"), self.succeed("--version"))

    def test_a_typing_error_gets_the_nearest_name(self):
        for arguments, meant in ((["rnu", "x"], "run"), (["bunlde"], "bundle"), (["docter"], "doctor"), (["cache", "inof"], "info"),
                                 (["run", "x", "x=f32[4]", "--sed", "1"], "--seed"), (["bench", "x", "x=f32[4]", "--secons=1"], "--seconds"),
                                 (["--verison"], "--version"), (["warm", "list", "--thread", "1"], "--threads")):
            with self.subTest(arguments=arguments):
                self.fail_with(2, [f"(did you mean '{meant}'?)"], *arguments)
        for arguments in (["nothing-like-it"], ["run", "x", "x=f32[4]", "--quite-different"], [], ["run"], ["run", "x"], ["x" * 5000],
                          ["run", "x", "x=f32[4]", "--seed", "seven"], ["run", "--", "-x", "--sed"]):
            with self.subTest(arguments=arguments):
                self.assertNotIn("did you mean", self.fail_with(2, [], *arguments))

    def test_subcommands_are_listed(self):
        text = self.succeed("--help")
        for command in ("run", "dump", "bench", "ops", "cache", "warm", "bundle", "doctor"):
            self.assertRegex(text, rf"\n  {command} ")


class Terminal(ToolTest):
    def test_colours_on_a_terminal_only(self):
        env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
        wrong = ["run", "sigmod(x)", "x=f32[4]", "--device", "cpu"]
        self.assertIn("\033[", on_a_terminal(wrong, env))
        self.assertIn("\033[", on_a_terminal(["ops"], env))
        self.assertNotIn("\033[", on_a_terminal(wrong, env | {"NO_COLOR": "1"}))
        self.assertNotIn("\033[", on_a_terminal(["ops"], env | {"TERM": "dumb"}))
        self.assertNotIn("\033[", self.run_tool(*wrong).stderr)
        self.assertNotIn("\033[", self.succeed("ops"))

    def run_with(self, command, stdout, stderr):
        """Exit code and what is left of standard error, with streams that a shell opens so: ">/dev/full", ">&-", ""."""
        line = f'exec "$0" "$@" {stdout} {stderr}'
        env = dict(os.environ, EPIFUSE_CACHE_DIR=os.path.join(tempfile.gettempdir(), f"epifuse-test-cache-{os.getuid()}"))
        return subprocess.run(["bash", "-c", line, os.path.abspath(TOOL), *command], cwd=self.folder, env=env, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)

    def test_an_output_that_takes_nothing(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        (self.folder / "list").write_text('"relu(x)" x=f16[8]\n')
        for command in GOOD:
            for stdout in (">/dev/full", ">&-"):
                for stderr in ("", "2>/dev/full", "2>&-"):
                    with self.subTest(command=command, stdout=stdout, stderr=stderr):
                        done = self.run_with(command, stdout, stderr)
                        self.assertEqual(done.returncode, 1)
                        self.assertEqual(done.stderr.startswith("epifuse: error: the output could not be written: "), stderr == "")

    def test_errors_that_nobody_hears(self):
        (self.folder / "bad").write_text('"relu(" x=f16[8]\n')
        for command, code in BAD:
            for stderr in ("2>/dev/full", "2>&-", "2> >(exec true)"):
                for stdout in ("", ">&-", ">/dev/full"):
                    if command == ["warm", "bad"] and stdout:
                        continue  # its report comes first, and fails
                    with self.subTest(command=command, stdout=stdout, stderr=stderr):
                        self.assertEqual(self.run_with(command, stdout, stderr).returncode, code)
            for closed in ("2>/dev/full", "2>&-"):
                done = self.run_with(GOOD[0], "", closed)
                self.assertEqual(done.returncode, 0, closed)

    def test_a_reader_that_leaves(self):
        """Neither a signal nor a word: `epifuse ops | head -1`."""
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([os.path.abspath(TOOL), "ops"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (1, ""))

    def test_a_closed_output_is_no_file(self):
        """A result must not get the descriptor of a standard stream that is closed: what is printed would end in it."""
        for closed in (">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                done = self.run_with(["run", "x", "x=f32[4]", "-o", "y.npy", "--device", "cpu"], closed, "")
                self.assertEqual(done.returncode, 1 if ">&-" in closed.replace("2>&-", "") else 0)
                self.assertEqual(read_npy(self.folder / "y.npy")[2], (4,))


class Ops(ToolTest):
    def test_table_json_and_markdown_agree(self):
        ops = self.json_of("ops")
        names = [op["signature"].split("(")[0] for op in ops]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(len(names), 60)
        text = self.succeed("ops")
        markdown = self.succeed("ops", "--markdown").splitlines()
        self.assertEqual(len(markdown), len(ops) + 2)
        for op, row in zip(ops, markdown[2:], strict=True):
            self.assertIn(op["signature"], text)
            self.assertIn(op["signature"], row)
            self.assertEqual(len(re.findall(r"(?<!\\)\|", row)), 6, row)

    def test_the_issues_operations_are_there(self):
        names = {op["signature"].split("(")[0] for op in self.json_of("ops")}
        wanted = """minimum maximum clamp where abs neg sign square sqrt rsqrt reciprocal exp expm1 exp2 log log1p log2 pow sin cos
            tanh erf floor ceil round trunc fmod remainder relu relu6 leaky_relu elu selu celu gelu silu sigmoid logsigmoid
            hardsigmoid hardswish hardtanh mish softplus softsign tanhshrink threshold isnan isinf"""
        self.assertEqual(set(wanted.split()) - names, set())


class Cache(ToolTest):
    def test_info_verify_clear(self):
        env = {"EPIFUSE_CACHE_DIR": str(self.folder / "cache"), "EPIFUSE_CACHE": ""}
        info = self.json_of("cache", "info", env=env)
        self.assertEqual((info["directory"], info["entries"], info["bytes"]), (str(self.folder / "cache"), 0, 0))
        self.assertGreater(info["limit"], 0)
        nothing = {"good": 0, "removed": 0, "damaged": 0, "outdated": 0, "misplaced": 0, "foreign": 0}
        self.assertEqual(self.json_of("cache", "verify", env=env), nothing)
        self.assertEqual(self.json_of("cache", "clear", env=env), {"removed": 0})
        self.assertIn(str(self.folder / "cache"), self.succeed("cache", "info", env=env))
        self.succeed("cache", "verify", env=env)
        self.succeed("cache", "clear", env=env)

    def test_tells_what_is_bad(self):
        cache = self.folder / "cache"
        cache.mkdir(mode=0o700)
        (cache / f"{1:032x}.image").write_bytes(b"cut short")
        (cache / f"{2:032x}.image").write_bytes(b"EPIFUSE\x1a" + b"\0" * 100)
        (cache / f"{3:032x}.image").mkdir()
        (cache / f".epifuse-lock-{4:032x}").touch()
        os.utime(cache / f".epifuse-lock-{4:032x}", (0, 0))
        (cache / "notes.txt").write_text("not the cache's")
        env = {"EPIFUSE_CACHE_DIR": str(cache), "EPIFUSE_CACHE": ""}
        info = self.json_of("cache", "info", env=env)
        self.assertEqual((info["entries"], info["compiling"], info["writable"], info["problem"]), (3, 1, True, None))
        self.assertIn("1 kernels being compiled", self.succeed("cache", "info", env=env))
        found = self.json_of("cache", "verify", env=env)
        self.assertEqual(found, {"good": 0, "removed": 2, "damaged": 1, "outdated": 1, "misplaced": 0, "foreign": 1})
        self.assertIn("1 not files of this cache", self.succeed("cache", "verify", env=env))
        self.assertEqual(sorted(path.name for path in cache.iterdir()), [f"{3:032x}.image", "notes.txt"])

    def test_tells_why_a_directory_is_not_used(self):
        cache = self.folder / "cache"
        cache.mkdir()
        cache.chmod(0o777)
        shared = self.folder / "missing"
        env = {"EPIFUSE_CACHE_DIR": str(cache), "EPIFUSE_CACHE_SHARED_DIR": str(shared), "EPIFUSE_CACHE": ""}
        info = self.json_of("cache", "info", env=env)
        self.assertIn("may be written by others", info["problem"])
        self.assertEqual((info["shared"]["directory"], info["shared"]["entries"]), (str(shared), 0))
        for command in ("info", "verify"):
            self.assertIn("may be written by others", self.succeed("cache", command, env=env))

    def test_switched_off(self):
        env = {"EPIFUSE_CACHE": "off"}
        self.assertIsNone(self.json_of("cache", "info", env=env)["directory"])
        self.assertIn("no disk cache", self.succeed("cache", "info", env=env))


class Doctor(ToolTest):
    def test_text(self):
        out = self.succeed("doctor")
        for word in ("epifuse", "cpu", "driver", "nvrtc", "cache", "runs on"):
            self.assertRegex(out, rf"(?m)^{word} ")

    def test_json(self):
        report = self.json_of("doctor")
        self.assertGreater(report["cpu_threads"], 0)
        self.assertEqual(report["tried"][0], {"device": "cpu", "works": True, "problem": None})
        self.assertEqual(len(report["tried"]), 1 + len(report["devices"]))

    def test_what_is_missing_is_told_apart(self):
        env = {"EPIFUSE_LIBCUDA": "/nonexistent/libcuda.so.1", "EPIFUSE_NVRTC": "/nonexistent/libnvrtc.so"}
        report = self.json_of("doctor", env=env)
        self.assertEqual((report["driver"], report["nvrtc"], report["devices"]), (None, None, []))
        self.assertTrue(any("NVRTC" in p for p in report["problems"]), report["problems"])
        self.assertTrue(any("driver" in p for p in report["problems"]), report["problems"])
        self.assertIn("missing", self.succeed("doctor", env=env))


class JsonEverywhere(ToolTest):
    def test_strange_chains_give_valid_json(self):
        # Names and texts from the user end up in JSON; bytes that are no UTF-8 must not break it.
        done = subprocess.run([os.path.abspath(TOOL).encode(), b"run", b"x # \xff comment", b"x=f32[4]", b"--device", b"cpu", b"--json"],
                              cwd=self.folder, capture_output=True, check=False,
                              env=dict(os.environ, EPIFUSE_CACHE_DIR=tempfile.gettempdir()))
        self.assertEqual(done.returncode, 0, done.stderr)
        json.loads(done.stdout)

    def test_machine_output_has_nothing_else(self):
        for arguments in (["ops"], ["doctor"], ["cache", "info"], ["dump", "x", "x=f32[4]"]):
            json.loads(epifuse(*arguments, "--json").stdout)


NO_GPU = {"EPIFUSE_LIBCUDA": "/nonexistent/libcuda.so.1"}


class Warm(ToolTest):
    def test_every_line_is_a_launch(self):
        (self.folder / "list").write_text('# a comment\n"relu(x + bias)" x=f16[8,16] bias=f32[16]\n\n'
                                          '"t = x * a; return t, t > 0" x=f32[4] a=2.0 --out f32,bool --inplace x\n')
        done = json.loads(self.succeed("warm", "list", "--device", "cpu", "--json"))
        self.assertEqual((done["device"], done["launches"], done["failed"], done["kernels"]), ("cpu", 2, 0, 0))
        self.assertEqual(self.succeed("warm", "list", "--device", "cpu"),
                         "2 launches checked, no kernel compiled: the CPU device has none\n")

    def test_a_wrong_line_is_named_and_keeps_nothing_from_the_others(self):
        for line, text in (('"relu(x + )" x=f16[8]', "expected a value"), ('"relu(x)" y=f16[8]', "unknown operand 'y'"),
                           ('"relu(x)" x=f16[8] --nope', "--nope"), ("relu(x", ""), ('"relu(x)" x=f16[8] --inplace ""', "--inplace"),
                           ('"x + y" x=f16[8] y=f16[7]', "broadcast")):
            for before, after in (("", '"x + 1" x=f16[8]\n'), ('"x + 1" x=f16[8]\n', ""), ('"sqrt(" x=f16[8]\n', '"x + 1" x=f16[8]\n')):
                with self.subTest(line=line, before=before):
                    (self.folder / "list").write_text(f"{before}{line}\n{after}")
                    done = self.run_tool("warm", "list", "--device", "cpu", "--json")
                    self.assertEqual(done.returncode, 2)
                    self.assertIn(f"list, line {before.count(chr(10)) + 1}: ", done.stderr)
                    self.assertIn(text, done.stderr)
                    report = json.loads(done.stdout)
                    failed = 2 if "sqrt" in before else 1
                    self.assertEqual((report["launches"], report["failed"]), (failed + 1, failed))
                    self.assertIn(f"{failed} of {failed + 1} launches failed", done.stderr)
        self.assertEqual(self.run_tool("warm", "missing").returncode, 2)

    def test_without_a_gpu_nothing_is_said_to_be_prepared(self):
        (self.folder / "list").write_text('"relu(x)" x=f16[8]\n"softmax(softmax(x, 0), 1)" x=f32[64,64]\n')
        done = self.run_tool("warm", "list", env=NO_GPU)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "2 launches checked, no kernel compiled: there is no usable GPU (`epifuse doctor` says why)\n")
        self.assertIn("list, line 2: the chain cannot be one kernel", done.stderr)
        self.assertIn("1 of 2 launches failed", done.stderr)
        self.assertEqual(self.run_tool("warm", "list", "--device", "cpu").returncode, 0)  # which computes both
        (self.folder / "list").write_text('"relu(x)" x=f16[8]\n')
        self.assertEqual(json.loads(self.succeed("warm", "list", "--json", env=NO_GPU))["kernels"], 0)


if __name__ == "__main__":
    main()
