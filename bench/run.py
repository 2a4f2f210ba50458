#!/usr/bin/env python3
"""The benchmarks' one entry; ./dev bench builds what is missing and calls it.

    ./dev bench                                             # the suites
    ./dev bench pointwise --cases 'mish|level2 95'          # one of them; its own options go to it, --help lists both
    ./dev bench reductions checkers --budget 570            # several within so many seconds; --with has their options
    ./dev bench pointwise --dry-run                         # all that needs no GPU: plans, binaries, inputs
    ./dev bench examples --prebuilt FOLDER --out FOLDER     # where nothing is built: another machine's build

What peers compile is compiled first, by several processes, beside suites that time nothing; then each suite that times
has the machine to itself. Records (NAME-DEVICE.json), logs and tables go to --out. EPIFUSE_COMMIT says of which commit
a build is, where no git can. Exit 1 if anything failed.
"""

import argparse
import contextlib
import functools
import importlib.util
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

import record
import suites
import tables

MISSING = {  # need -> what to do
    "gpu": "nvidia-smi finds no GPU here (--dry-run does what needs none)",
    "torch": "{python} has no PyTorch with Triton (python3 -m pip install torch, or name another Python with --python)",
    "numpy": "{python} has no NumPy (python3 -m pip install numpy)",
    "compute-sanitizer": "no compute-sanitizer, which the CUDA toolkit brings",
    "wheel": "no wheel of the Python package (./dev python builds one in build-python/wheel; or name one with --wheel)",
}
WITHOUT_GPU = (
    "gpu",
    "torch",
    "compute-sanitizer",
    "wheel",
)  # a dry run says itself what it leaves out for want of these
GRACE = 10  # seconds between asking a process to end and ending it
LEFT = "{seconds left}"  # in a command
RESERVE = 15  # seconds before the end in which no case of a suite begins
SHOWN = 15  # lines of a log, of what ran beside others


@functools.cache
def has_gpu():
    if not shutil.which("nvidia-smi"):
        return False
    return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout.startswith("GPU")


def imports(python, *modules):
    return (
        subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True, check=False).returncode == 0
    )


class Run:
    """What the suites' commands are made from (suites.py), and the processes."""

    def __init__(self, options, arguments, scratch):
        self.python, self.dry, self.scratch = options.python, options.dry_run, scratch
        self.arguments_by_suite, self.arguments, self.minutes = arguments, [], 0  # the last two: of the suite at hand
        self.build, self.out = options.prebuilt.resolve(), options.out.resolve()
        self.wheel = options.wheel or newest_wheel(self.build)
        self.has_gpu = has_gpu()
        self.device = record.device_of(record.asked_of_gpu("name") or "gpu") if self.has_gpu else record.STUB
        self.end = time.monotonic() + options.budget if options.budget else None
        self.limited = options.budget is not None
        self.begin, self.began, self.failed = time.monotonic(), time.time(), []

    # -- for suites.py
    def record(self, name):
        """The file of what runs on this device."""
        return self.out / f"{name}-{self.device}.json"

    def budget(self):
        """Options of a script that begins no case when its time is nearly over; start() fills the seconds in."""
        return ["--budget", LEFT] if self.limited else []

    # -- time
    def left(self):
        return self.end - time.monotonic() if self.limited else float("inf")

    def say(self, text):
        print(f"== {text} ({time.monotonic() - self.begin:.0f} s)", flush=True)

    # -- processes
    def environment(self, **more):
        """Caches of this run alone, so that nothing is measured warm that was not warmed here."""
        place = {
            name: str(self.scratch / folder)
            for name, folder in (
                ("EPIFUSE_CACHE_DIR", "epifuse"),
                ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
                ("TRITON_CACHE_DIR", "triton"),
            )
        }
        path = [str(self.scratch / "wheel")] if self.wheel else []
        path += [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        known = {"PYTHONPATH": os.pathsep.join(path)} if path else {}
        library = self.build / "bench/libepifuse_bench.so"
        known |= {"EPIFUSE_BENCH_LIB": str(library)} if library.exists() else {}
        known |= {"EPIFUSE_COMMIT": record.commit()} if record.commit() else {}
        return os.environ | known | place | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"} | more

    def start(self, command, log, shown=False, **more):
        left = str(max(1, int(self.left()) - RESERVE)) if self.limited else None
        return Process([left if word == LEFT else word for word in command], log, self.environment(**more), shown)

    def log(self, name):
        return self.out / f"{name}.log"


def newest_wheel(build):
    """Beside the binaries, or where ./dev python puts it."""
    found = [
        wheel
        for folder in (build / "wheel", build, record.ROOT / "build-python/wheel")
        for wheel in sorted(folder.glob("epifuse-*.whl"))
    ]
    return found[0] if found else None


class Process:
    """A process group that can be waited for with a limit; what it prints goes to a log, and if `shown` here too."""

    def __init__(self, command, log, environment, shown):
        self.name, self.shown = log.stem, shown
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=record.ROOT,
            env=environment,
            start_new_session=True,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        with self.log.open("wb") as file, self.process.stdout as output:
            for line in output:
                file.write(line)
                file.flush()
                if self.shown:
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()

    def wait(self, seconds):
        """Its exit code; None where its time ended it."""
        try:
            code = self.process.wait(None if seconds == float("inf") else max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            self.stop()
            return None
        self.reader.join(GRACE)
        return code

    def stop(self):
        """Ends what is still running, and whatever it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE)
            with contextlib.suppress(ProcessLookupError):  # none of them is left
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.reader.join(GRACE)

    def tail(self):
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line[:200] for line in lines[-SHOWN:])


# ---- what is needed


def lacking(suite, run):
    """Sentences about what a suite needs and this machine has not."""
    there = {
        "gpu": lambda: run.has_gpu,
        "torch": lambda: imports(run.python, "torch", "triton"),
        "numpy": lambda: imports(run.python, "numpy"),
        "compute-sanitizer": lambda: shutil.which("compute-sanitizer") is not None,
        "wheel": lambda: run.wheel is not None,
    }
    needs = [need for need in suite.needs if not (run.dry and need in WITHOUT_GPU)]
    found = [MISSING[need].format(python=run.python) for need in needs if not there[need]()]
    found += [
        f"no {run.build / name} (./dev bench builds it; or name a folder that has it with --prebuilt)"
        for name in suite.files
        if not any(run.build.glob(name))
    ]
    return [f"{suite.name}: {sentence}" for sentence in found]


# ---- the run


def steps_of(chosen, run):
    for suite in chosen:
        run.minutes, run.arguments = suite.minutes, run.arguments_by_suite.get(suite.name, [])
        yield from suite.steps(run)


def note(run, name, code):
    if code is None:
        run.failed.append(f"{name} (its time was over)")
    elif code != 0:
        run.failed.append(f"{name} (exit {code})")


def ahead_and_beside(steps, run):
    """All that times nothing, at once: what peers compile ahead, tests and checkers. Gives the seconds that it took."""
    begin = time.monotonic()
    warming = [
        (step, run.start(command, run.scratch / f"ahead-{step.name}-{k}.log", TORCHINDUCTOR_COMPILE_THREADS="2"))
        for step in steps
        for k, command in enumerate(step.ahead)
    ]
    beside = [(step, run.start(step.command, run.log(step.name))) for step in steps if step.beside]
    if warming or beside:
        names = dict.fromkeys(step.name for step, _ in warming + beside)
        run.say(f"compiled ahead, or checked, beside each other: {', '.join(names)}")
    try:
        for step, process in beside + warming:
            code = process.wait(min(begin + step.seconds - time.monotonic(), run.left()))
            if step.beside:
                print(process.tail(), flush=True)
                note(run, step.name, code)
            elif code != 0:  # the step itself will compile what is missing
                print(f"{process.name} ended with {code}:\n{process.tail()}", flush=True)
    finally:
        for _, process in beside + warming:
            process.stop()
    return time.monotonic() - begin


def in_turn(steps, spent, run):
    """What times, one after the other; `spent` is what compiling ahead took of their time."""
    for step in (step for step in steps if not step.beside):
        if run.left() <= 0:
            run.failed.append(f"{step.name} (no time was left for it)")
            continue
        run.say(step.name)
        process = run.start(step.command, run.log(step.name), shown=True)
        try:
            code = process.wait(min(step.seconds - (spent if step.ahead else 0), run.left()))
        finally:
            process.stop()
        note(run, step.name, code)


def write_tables(chosen, run):
    """Beside each record its table, and its picture where there is matplotlib."""
    for result in (result for suite in chosen for result in suite.results if result.table):
        path = run.record(result.name)
        if not path.exists() or path.stat().st_mtime < run.began:
            continue
        document, _ = tables.read(path)
        path.with_suffix(".md").write_text(tables.text_of(document, result) + "\n", encoding="utf-8")
        if tables.table_of(result).plot and importlib.util.find_spec("matplotlib"):
            for kind in (".svg", ".png"):
                tables.table_of(result).plot(document, path.with_suffix(kind))
        print(f"{path}: of the suite '{result.name}'; its table is in {path.with_suffix('.md')}", flush=True)


def carried_out(chosen, options, arguments):
    with tempfile.TemporaryDirectory(prefix="epifuse-bench-") as folder:
        run = Run(options, arguments, pathlib.Path(folder))
        problems = [sentence for suite in chosen for sentence in lacking(suite, run)]
        if problems:
            raise SystemExit("\n".join(f"bench: {sentence}" for sentence in problems))
        if run.wheel:
            zipfile.ZipFile(run.wheel).extractall(run.scratch / "wheel")
        if run.dry:
            run.out = run.scratch / "out"
        steps = list(steps_of(chosen, run))
        if run.dry:
            steps = [suites.Step(step.name, step.command, step.seconds) for step in steps]
        in_turn(steps, ahead_and_beside(steps, run), run)
        if not run.dry:
            write_tables(chosen, run)
        run.say(f"failed: {', '.join(run.failed)}" if run.failed else "done")
        return 1 if run.failed else 0


# ---- the command line


def listing():
    rows = [("suite", "what it measures", "needs", "at most")]
    rows += [
        (suite.name, suite.what, ", ".join(suite.needs) or "nothing", f"{suite.minutes} min")
        for suite in suites.SUITES.values()
    ]
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def targets(chosen):
    """What a build must make for these suites, as CMake's targets."""
    return list(dict.fromkeys(target for suite in chosen for target in suite.targets))


def parser_of_options():
    made = argparse.ArgumentParser(
        prog="./dev bench SUITE...",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    out, build = pathlib.Path(os.environ.get("OUT", record.ROOT / "build/results")), record.ROOT / "build"
    made.add_argument(
        "--out", type=pathlib.Path, default=out, metavar="FOLDER", help="for records, logs and tables (build/results)"
    )
    made.add_argument(
        "--prebuilt",
        type=pathlib.Path,
        default=build,
        metavar="FOLDER",
        help="binaries, built here or elsewhere (build)",
    )
    made.add_argument(
        "--wheel", type=pathlib.Path, help="of the Python package (beside the binaries, else in build-python/wheel)"
    )
    made.add_argument("--python", default=os.environ.get("PYTHON", sys.executable), help="that has PyTorch (this one)")
    made.add_argument("--dry-run", action="store_true", help="all that needs no GPU, measuring nothing")
    made.add_argument(
        "--budget", type=float, metavar="SECONDS", help="for all of it (each suite has a limit of its own)"
    )
    made.add_argument(
        "--with",
        dest="more",
        action="append",
        default=[],
        metavar="SUITE=OPTIONS",
        help="options of one of several suites",
    )
    made.add_argument("-h", "--help", action="store_true", help="this text, and the suite's own options")
    made.add_argument("--targets", action="store_true", help=argparse.SUPPRESS)  # for ./dev: prints what to build
    return made


def parse(given):
    """(suites, options, own options of each suite)."""
    names, given = [], list(given)
    while given and not given[0].startswith("-"):
        names.append(given.pop(0))
    unknown = [name for name in names if name not in suites.SUITES]
    if unknown:
        raise SystemExit(f"bench: no suite '{unknown[0]}'; there are {', '.join(suites.SUITES)}")
    parser = parser_of_options()
    options, rest = parser.parse_known_args(given)
    if rest and len(names) != 1:
        parser.error(
            f"unknown: {' '.join(rest)}; the options of one of several suites: --with 'SUITE={' '.join(rest)}'"
        )
    arguments = {name: list(rest) for name in names}
    for text in options.more:
        name, _, more = text.partition("=")
        if name not in arguments:
            parser.error(
                f"--with {text}: expected SUITE=OPTIONS of a suite that is to run ({', '.join(names) or 'none'})"
            )
        arguments[name] += shlex.split(more)
    return [suites.SUITES[name] for name in names], options, arguments


def show_help(chosen, options):
    """This command's options, and what the suites' programs say of their own."""
    parser_of_options().print_help()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(options, {}, pathlib.Path(folder))
        for step in steps_of(chosen, run):
            program = step.command[: 2 if step.command[0] == run.python else 1]
            print(f"\n{step.name}:", flush=True)
            subprocess.run([*map(str, program), "--help"], env=run.environment(), check=False)
    return 0


def ended(*_):
    """On SIGTERM, as `timeout` sends it: processes that were started are stopped on the way out."""
    raise SystemExit(128 + signal.SIGTERM)


def main():
    signal.signal(signal.SIGTERM, ended)
    chosen, options, arguments = parse(sys.argv[1:])
    if options.help:
        return show_help(chosen, options)
    if options.targets:
        print(*targets(chosen))
        return 0
    if not chosen:
        print(listing())
        return 0
    return carried_out(chosen, options, arguments)


if __name__ == "__main__":
    sys.exit(main())
