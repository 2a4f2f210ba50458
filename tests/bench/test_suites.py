"""./dev bench without a GPU: its list, its errors, the dry run of every suite, and how it runs what a suite asks for.

EPIFUSE_BENCH_BUILD names a build folder. What a dry run needs and is not there (a program, NVRTC, a Python package) is
skipped, and said."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import unittest.mock

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"
sys.path.insert(0, str(BENCH))
import quantise_bytes
import record
import run
import suites

BUILD = pathlib.Path(os.environ.get("EPIFUSE_BENCH_BUILD") or "no build folder")


def bench(*arguments):
    return subprocess.run(
        [sys.executable, BENCH / "run.py", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def program(path, text="exit 0"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


class List(unittest.TestCase):
    def test_every_suite_has_a_line(self):
        lines = bench().stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["suite", *suites.SUITES])
        for line, suite in zip(lines[1:], suites.SUITES.values()):
            self.assertIn(suite.what, line)
            self.assertIn(f"{suite.minutes} min", line)

    def test_what_cannot_be_run_is_told(self):
        for arguments, told in (
            (["nothing"], "no suite 'nothing'; there are pointwise, reductions"),
            (["pointwise", "reductions", "--types", "f32"], "--with 'SUITE=--types f32'"),
            (
                ["pointwise", "--with", "reductions=--no-torch"],
                "expected SUITE=OPTIONS of a suite that is to run (pointwise)",
            ),
            (["checkers", "--dry-run", "--prebuilt", "/nowhere"], "checkers: no /nowhere/tools/epifuse"),
        ):
            done = bench(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(told, done.stderr)

    def test_without_a_gpu_nothing_is_measured(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(run, "has_gpu", lambda: False):
            program(pathlib.Path(folder) / "tests/gpu_test")
            chosen, options, rest = run.parse(["gpu-tests", "--prebuilt", folder, "--out", folder])
            with self.assertRaisesRegex(SystemExit, "gpu-tests: nvidia-smi finds no GPU here"):
                run.carried_out(chosen, options, rest)

    def test_options_reach_their_suite(self):
        given = ["reductions", "checkers", "--with", "checkers=--only 'split outer'", "--budget", "7"]
        _, options, arguments = run.parse(given)
        self.assertEqual((arguments, options.budget), ({"reductions": [], "checkers": ["--only", "split outer"]}, 7.0))
        self.assertEqual(
            run.parse(["pointwise", "--cases", "mish", "--dry-run"])[2], {"pointwise": ["--cases", "mish"]}
        )

    def test_help_has_both_options(self):
        text = bench("checkers", "--help").stdout
        self.assertIn("--prebuilt FOLDER", text)
        self.assertIn("--only REGEX", text)

    def test_what_is_built_for_a_suite(self):
        self.assertEqual(
            bench("reductions", "checkers", "--targets").stdout.split(), ["epifuse_bench_bridge", "epifuse_tool"]
        )
        self.assertEqual(bench("--targets").stdout.strip(), "")


class DryRun(unittest.TestCase):
    """Of every suite: none is left out."""

    def dry(self, suite, *arguments, build=BUILD):
        missing = [name for name in suites.SUITES[suite].files if not any(build.glob(name))]
        if missing:
            self.skipTest(f"{build} holds no {', '.join(missing)}")
        if "numpy" in suites.SUITES[suite].needs and not run.imports(sys.executable, "numpy"):
            self.skipTest("no NumPy")
        done = bench(suite, "--dry-run", "--prebuilt", build, *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_all_suites_are_tried(self):
        tried = {name.removeprefix("test_").replace("_", "-") for name in dir(self) if name.startswith("test_")}
        self.assertEqual(set(suites.SUITES) - tried, set())

    def test_pointwise(self):
        if not any(BUILD.glob("bench/libepifuse_bench.so")):
            self.skipTest("no library of the benchmarks")
        import bridge

        with unittest.mock.patch.dict(os.environ, {"EPIFUSE_BENCH_LIB": str(BUILD / "bench/libepifuse_bench.so")}):
            if bridge.system()["nvrtc"] is None:
                self.skipTest("no NVRTC")
        self.assertIn("transposed f32: ", self.dry("pointwise", "--cases", "views: transposed$", "--types", "f32"))

    def test_reductions(self):
        found = self.dry("reductions")
        self.assertGreater(len(found.splitlines()), 100)
        self.assertNotIn("FAILED", found)

    def test_gradients(self):
        self.assertIn("layer_norm, dx bf16: ", self.dry("gradients"))

    def test_view_operands(self):
        self.assertIn("rope of halves f32: ", self.dry("view-operands"))

    def test_quantise(self):
        found = self.dry("quantise")
        self.assertIn("gate to MXFP8 bf16: ", found)
        self.assertNotIn("FAILED", found)

    def test_products(self):
        self.assertIn("silu(a) * b i8: ", self.dry("products"))

    def test_product_kinds(self):
        found = self.dry("product-kinds")
        for case in ("softmax(x) bf16: ", "gelu(x + b) + r tf32: ", "bare f8e4m3-128: "):
            self.assertIn(case, found)
        self.assertNotIn("FAILED", found)

    def test_convolutions(self):
        found = self.dry("convolutions")
        self.assertIn("128 of 3×3, relu(x + b + r) bf16: ", found)
        self.assertNotIn("FAILED", found)

    def test_kernelbench(self):
        found = self.dry("kernelbench")
        self.assertIn("99_rebuilt", found)

    def test_python(self):
        self.dry("python")

    def test_checkers(self):
        self.assertIn("split outer reduction", self.dry("checkers", "--only", "split outer"))

    def test_gradient_bytes(self):
        self.assertIn("2 are one kernel, 2 of them", self.dry("gradient-bytes"))

    def test_product_times(self):
        self.assertIn("1 products: the plan's estimate beside", self.dry("product-times"))

    def test_quantise_bytes(self):
        count = len(quantise_bytes.TAILS)
        self.assertIn(f"{count} kernels: {count} of them within 1.03", self.dry("quantise-bytes"))

    def test_view_instructions(self):
        self.assertIn("6 kernels by hand, beside flat", self.dry("view-instructions"))

    def test_dispatch(self):
        self.assertIn("--device", self.dry("dispatch"))

    def test_cold_start(self):
        self.assertIn("--device", self.dry("cold-start"))

    def test_compile_time(self):
        self.assertIn("30 kernels", self.dry("compile-time"))

    def test_cpu_device(self):
        self.assertIn("1000 elements", self.dry("cpu-device"))

    # What is built for these needs cuDNN, or takes long: programs in their place.

    def test_examples(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            names = [source.stem for source in (record.ROOT / "examples").glob("example_*.cpp")]
            for name in names:
                program(build / "examples" / name)
            self.assertEqual(self.dry("examples", build=build).count("example_"), len(names))
            (build / "examples" / names[0]).unlink()
            done = bench("examples", "--dry-run", "--prebuilt", build)
            self.assertEqual((done.returncode, f"not there: {names[0]}" in done.stdout), (1, True), done.stdout)

    def test_gpu_tests(self):
        with tempfile.TemporaryDirectory() as folder:
            program(pathlib.Path(folder) / "tests/gpu_test", "echo 'Cases.'; echo '  one'; echo '  two'")
            self.assertIn("2 tests match Cases.*", self.dry("gpu-tests", build=pathlib.Path(folder)))

    def test_trust(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            program(build / "tests/process_gpu_test")
            program(build / "tests/soak/epifuse_soak")
            found = self.dry("trust", "--steps", "attack,soak=3,fuzz=60", build=build)
            for told in ("process-gpu", "--minutes 3", "--seconds 60"):
                self.assertIn(told, found)
            done = bench("trust", "--steps", "dance", "--dry-run", "--prebuilt", build)
            self.assertIn("no step 'dance'; there are attack, soak, fuzz", done.stdout)


class Running(unittest.TestCase):
    """How steps are run: suites of Python one-liners."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def carried_out(self, *steps, budget=None, **suite):
        made = suites.Suite("made", "for a test", 1, lambda _: steps, **suite)
        given = ["--out", str(self.out), "--prebuilt", str(self.out)] + (["--budget", str(budget)] if budget else [])
        _, options, _ = run.parse(given)
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as output:
            code = run.carried_out([made], options, {})
            output.seek(0)
            return code, output.read()

    def step(self, name, text, seconds=30.0, **more):
        return suites.Step(name, [sys.executable, "-c", textwrap.dedent(text)], seconds, **more)

    def test_a_step_that_fails_does_not_keep_the_next_from_running(self):
        code, told = self.carried_out(self.step("first", "raise SystemExit(3)"), self.step("second", "print('it ran')"))
        self.assertEqual(code, 1)
        self.assertIn("failed: first (exit 3)", told)
        self.assertEqual((self.out / "second.log").read_text(), "it ran\n")

    def test_a_step_ends_with_its_time_and_leaves_no_process(self):
        text = (
            "import subprocess, sys, time; print(subprocess.Popen(['sleep', '100']).pid, flush=True); time.sleep(100)"
        )
        begin = time.monotonic()
        code, told = self.carried_out(self.step("long", text, seconds=2.0))
        self.assertEqual((code, time.monotonic() - begin < 20), (1, True))
        self.assertIn("long (its time was over)", told)
        child = pathlib.Path("/proc") / (self.out / "long.log").read_text().strip() / "stat"
        self.assertTrue(not child.exists() or child.read_text().split()[2] == "Z")

    def test_the_budget_is_for_all_of_it(self):
        code, told = self.carried_out(
            self.step("long", "import time; time.sleep(100)"), self.step("next", "print(1)"), budget=2
        )
        self.assertEqual(code, 1)
        self.assertIn("failed: long (its time was over), next (no time was left for it)", told)

    def test_the_seconds_that_are_left_are_told_when_a_step_starts(self):
        wait = self.step("wait", "import time; time.sleep(3)")
        told = suites.Step("told", [sys.executable, "-c", "import sys; print(sys.argv[1:])", run.LEFT], 30)
        self.assertEqual(self.carried_out(wait, told, budget=30)[0], 0)
        self.assertLessEqual(int((self.out / "told.log").read_text().strip("[]'\n")), 30 - 3 - run.RESERVE)

    def test_what_is_compiled_ahead_is_found_by_the_step_and_by_no_other_run(self):
        ahead = (
            sys.executable,
            "-c",
            "import os; at = os.environ['TRITON_CACHE_DIR']; os.mkdir(at); open(at + '/kernel', 'w').close()",
        )
        step = self.step(
            "timed", "import os; print(os.path.exists(os.environ['TRITON_CACHE_DIR'] + '/kernel'))", ahead=(ahead,)
        )
        self.assertEqual(self.carried_out(step)[0], 0)
        self.assertEqual((self.out / "timed.log").read_text(), "True\n")
        self.carried_out(
            self.step("timed", "import os; print(os.path.exists(os.environ['TRITON_CACHE_DIR'] + '/kernel'))")
        )
        self.assertEqual((self.out / "timed.log").read_text(), "False\n")

    def test_nothing_runs_beside_what_is_timed(self):
        stamps = "import time; a = time.time(); time.sleep({}); print(a, time.time())"
        beside = self.step("beside", stamps.format(0.5), beside=True)
        timed = self.step("timed", stamps.format(0.1), ahead=([sys.executable, "-c", stamps.format(0.5)],))
        self.assertEqual(self.carried_out(timed, beside)[0], 0)
        ended, began = (self.out / "beside.log").read_text().split()[1], (self.out / "timed.log").read_text().split()[0]
        self.assertLess(float(ended), float(began))

    def test_a_record_gets_its_table(self):
        source = record.RESULTS / "python-tutorial-h100.json"
        name = f"python-tutorial-{run.Run(run.parse([])[1], {}, self.out).device}"
        step = self.step(
            "write", f"import shutil; shutil.copyfile({str(source)!r}, {str(self.out / f'{name}.json')!r})"
        )
        code, told = self.carried_out(step, results=suites.SUITES["python"].results)
        self.assertEqual((code, "of the suite 'python-tutorial'" in told), (0, True), told)
        self.assertIn("| ConvReluBias | f32 |", (self.out / f"{name}.md").read_text())


class WholeRun(unittest.TestCase):
    """Suites from the command line to record and table, with programs in place of the GPU's."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build, self.out = pathlib.Path(folder.name) / "build", pathlib.Path(folder.name) / "out"
        self.tools = pathlib.Path(folder.name) / "bin"
        smi = 'case "$*" in -L) echo "GPU 0" ;; *driver_version*) echo 580.1 ;; *) echo "NVIDIA A100-PCIE" ;; esac'
        program(self.tools / "nvidia-smi", smi)

    def run_it(self, *arguments):
        path = f"{self.tools}{os.pathsep}{os.environ['PATH']}"
        command = [sys.executable, BENCH / "run.py", *arguments, "--prebuilt", self.build, "--out", self.out]
        return subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PATH": path, "EPIFUSE_COMMIT": "0123456789ab"},
        )

    def document(self, name):
        found = record.read(self.out / name)
        self.assertEqual(record.problems(found), [])
        self.assertEqual((found["device"], found["driver"], found["commit"]), ("NVIDIA A100-PCIE", "580.1", "0123456789ab"))
        return found

    def test_examples(self):
        records = record.read(record.RESULTS / "examples-h100.json")["records"]
        line = next(found for found in records if found["example"] == "1_conv_relu_bias")
        line |= {"device": "NVIDIA A100-PCIE", "driver": "13.0", "cuda_runtime": "13.0", "epifuse": "0.1.0"}
        program(self.build / "examples/example_1", f"cat >>\"$4\" <<'END'\n{json.dumps(line)}\nEND")
        program(self.build / "examples/example_2", "exit 1")
        done = self.run_it("examples", "--size", "small")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("failed: example_2", done.stdout)
        self.assertEqual(self.document("examples-a100.json")["records"][0]["tail_ms"], line["tail_ms"])
        self.assertIn("| 1 conv relu bias | f32 | NCHW |", (self.out / "examples-a100.md").read_text())

    def test_checkers_and_tests_beside_each_other(self):
        program(self.build / "tools/epifuse")
        shard = 'echo "[       OK ] shard $GTEST_SHARD_INDEX (1 ms)"; echo "[  PASSED  ] 0 tests."'
        program(self.build / "tests/gpu_test", shard)
        checker = '[ "$1" != --version ] || { echo NVIDIA; echo "Version 1.2"; exit; }\n'
        checker += 'case "$*" in *racecheck*) echo a race; exit 9 ;; esac'
        program(self.tools / "compute-sanitizer", checker)
        done = self.run_it("checkers", "gpu-tests", "--with", "checkers=--only '^by_row$'")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("failed: checkers (exit 1)", done.stdout)
        found = self.document("checkers-a100.json")
        verdicts = {"memcheck": "ok", "racecheck": "FAILED", "synccheck": "ok", "initcheck": "ok"}
        self.assertEqual(found["records"], [{"schedule": "by_row", **verdicts}])
        self.assertEqual(found["versions"], {"compute-sanitizer": "1.2"})
        self.assertIn("by_row, racecheck:\na race", (self.out / "checkers-a100.failures.txt").read_text())
        told = (self.out / "gpu-tests-a100.txt").read_text()
        self.assertIn("NVIDIA A100-PCIE, 580.1, commit 0123456789ab: gpu_test --gtest_filter=Cases.*", told)
        self.assertEqual((told.count("[       OK ] shard"), "0 tests" in told), (3, False))

    def test_trust(self):
        program(self.build / "tests/process_gpu_test")
        program(self.build / "tests/soak/epifuse_soak", 'echo "$@" >"$(dirname "$0")/asked"; exit 2')
        done = self.run_it("trust", "--steps", "soak=0.1", "--seed", "7")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("failed: soak", done.stdout)
        self.assertIn("--device cuda --minutes 0.1 --seed 7", (self.build / "tests/soak/asked").read_text())


class Cpp(unittest.TestCase):
    def test_record_hpp_writes_the_format_of_record_py(self):
        name = BUILD / "bench/epifuse_bench_dispatch"
        if not name.exists():
            self.skipTest(f"no {name}")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "dispatch-stub.json"
            done = subprocess.run(
                [name, "--device", "stub", "--json", path],
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | {"EPIFUSE_COMMIT": "0123456789ab"},
            )
            if done.returncode == 77:
                self.skipTest(done.stderr)
            self.assertEqual(done.returncode, 0, done.stderr)
            document = json.loads(path.read_text())
        self.assertEqual(record.problems(document), [])
        self.assertEqual(list(document), list(record.FIELDS))
        self.assertEqual(
            (document["suite"], document["device"], document["commit"]),
            ("dispatch", "none (stub driver)", "0123456789ab"),
        )


if __name__ == "__main__":
    unittest.main()
