"""A run of many cases on a GPU, whatever they measure: a worker process goes through them and writes its record file
after each; a parent starts it again where one crashed or hung. For bench/reductions.py and bench/pointwise.py, which
say what a case is (Bench)."""

import argparse
import dataclasses
import gc
import math
import os
import pathlib
import subprocess
import sys
import time
import typing

import bridge
import gpu_timing
import record
from gpu_timing import MOST_DETAIL, Hang, big_copy_bandwidth, first_line

RESTART, DONE, FAILED = 75, 0, 1  # exit codes of a worker


@dataclasses.dataclass(frozen=True)
class Bench:
    """What a script measures. An item is a case, or a case and a type."""

    script: str  # its path
    chosen: typing.Callable  # options -> items
    record_of: typing.Callable  # item -> what is known before it runs; "case" and "dtype" name it
    run: typing.Callable  # (item, options) -> its record
    outcome: typing.Callable  # record -> one line for people
    compile_ahead: typing.Callable  # (items, options): what peers compile and keep on disk
    use_torch: typing.Callable
    settings: typing.Callable = dict  # what the document says beside the rest, as settings
    versions: typing.Callable = dict  # and as versions

    @property
    def name(self):
        return pathlib.Path(self.script).stem

    @property
    def suite(self):
        return self.name.replace("_", "-")


# ---- the document


class Document:
    """The record file, written after each change. While a case runs it stands last, marked as running: what is found
    there again broke off."""

    def __init__(self, path, data):
        self.path, self.data, self.running = path, data, []

    def write(self):
        record.write(self.path, self.data | {"records": self.data["records"] + self.running})

    def begin(self, known):
        self.running = [known | {"running": True}]
        self.write()

    def add(self, found):
        self.data["records"].append(found)
        self.running = []
        self.write()


def open_document(bench, options):
    """The header of this run, and the records of the run that is resumed."""
    import triton

    torch = gpu_timing.torch
    system = bridge.system()
    versions = {
        "epifuse": system["version"],
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
        **bench.versions(),
        "nvrtc": system["nvrtc"],
    }
    data = record.made(
        bench.suite,
        device=torch.cuda.get_device_name(0),
        driver=record.asked_of_gpu("driver_version"),
        versions=versions,
        command=" ".join([f"bench/{bench.name}.py"] + options.given),
        settings={"copy_gbps": big_copy_bandwidth() * 1e-9, **bench.settings()},
    )
    if options.resume and options.resume.exists():
        before = record.read(options.resume)
        check_same_run(bench, before, data, options.resume)
        data |= {key: before[key] for key in ("date", "settings")}
        if data["command"] not in before["command"].split("; "):  # another part of the run, no process begun again
            data["command"] = f"{before['command']}; {data['command']}"
        data["records"] = [broken_off(one) if "running" in one else one for one in before["records"]]
    return Document(options.output, data)


def broken_off(running):
    return {name: value for name, value in running.items() if name != "running"} | {
        "error": "the process ended in the middle of it"
    }


def check_same_run(bench, before, data, path):
    for key in record.differences(before, data):
        raise SystemExit(f"{bench.name}.py: cannot resume {path}: its {key} is {before[key]}, here it is {data[key]}")


# ---- the worker


def is_usable():
    """False after an error that leaves the device unusable for this process."""
    try:
        gpu_timing.torch.cuda.synchronize()
        return True
    except Exception:
        return False


def name_of(found):
    return found["case"], found["dtype"]


def run_item(bench, item, options):
    """Its record, and whether the process is of no use any more."""
    began, broken = time.monotonic(), False
    try:
        found = bench.run(item, options)
    except Exception as problem:
        found = bench.record_of(item) | {"error": first_line(problem), "detail": str(problem)[:MOST_DETAIL]}
        broken = isinstance(problem, Hang) or not is_usable()
    found["took_seconds"] = time.monotonic() - began
    return found, broken


def work(bench, options):
    bench.use_torch()
    document = open_document(bench, options)
    done = {name_of(one) for one in document.data["records"]}
    todo = bench.chosen(options)
    start = time.monotonic()
    for i, item in enumerate(todo, 1):
        known = bench.record_of(item)
        if name_of(known) in done:
            continue
        if time.monotonic() - start > options.budget:
            print(f"out of time with {len(todo) - i + 1} of {len(todo)} to go; --resume continues", flush=True)
            break
        document.begin(known)
        found, broken = run_item(bench, item, options)
        document.add(found)
        print(
            f"[{i:3}/{len(todo)}] {' '.join(name_of(found))}: {bench.outcome(found)} ({found['took_seconds']:.1f} s)",
            flush=True,
        )
        if broken:
            os._exit(RESTART)  # whatever the context holds cannot be freed in order
        gc.collect()
        gpu_timing.torch.cuda.empty_cache()
    bridge.close()
    return FAILED if any("error" in one for one in document.data["records"]) else DONE


# ---- the parent


def warm(bench, options):
    """A share of what peers compile, which they keep on disk for the run."""
    bench.use_torch()
    index, _, count = options.warm_part.partition("/")
    bench.compile_ahead(bench.chosen(options)[int(index) :: int(count)], options)
    return DONE


def call_self(bench, options, *more, **environment):
    command = [sys.executable, bench.script, *options.given, *map(str, more)]
    return subprocess.Popen(command, env=os.environ | environment)


def supervise(bench, options):
    start = time.monotonic()
    if options.warm:
        parts = [
            call_self(bench, options, "--warm-part", f"{k}/{options.warm}", TORCHINDUCTOR_COMPILE_THREADS="2")
            for k in range(options.warm)
        ]
        for part in parts:
            part.wait()
        print(f"compiled ahead in {time.monotonic() - start:.0f} s", flush=True)
    resume = options.resume
    started = time.time()
    while True:
        left = options.budget - (time.monotonic() - start)
        more = ["--worker", "--budget", max(left, 0), *(["--resume", resume] if resume else [])]
        code = call_self(bench, options, *more).wait()
        if code in (DONE, FAILED):
            return code
        if not options.output.exists() or options.output.stat().st_mtime < started:
            return code  # it did not get as far as a case
        print(f"the process ended with {code}; the rest goes on in a new one", flush=True)
        resume = options.output


# ---- options that every script has


def listed(text):
    return text.split(",")


def parser(description, output):
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--cases", default="", metavar="REGEX", help="of names; all by default")
    made.add_argument("--seconds", type=float, default=0.3, help="of samples per case, %(default)s")
    made.add_argument("--max-bytes", type=float, default=math.inf, help="leave out cases with a larger tensor")
    made.add_argument("--budget", type=float, default=math.inf, help="seconds after which no case begins")
    made.add_argument("--warm", type=int, default=0, metavar="N", help="processes that compile for the peers ahead")
    made.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path(os.environ.get("OUT", bridge.ROOT / "build/results")) / output,
    )
    made.add_argument("--resume", type=pathlib.Path, metavar="JSON", help="keep its records, and run the others")
    made.add_argument("--list", action="store_true", help="print the cases")
    made.add_argument("--dry-run", action="store_true", help="print the plans, without a GPU")
    made.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    made.add_argument("--warm-part", help=argparse.SUPPRESS)
    return made


def parsed(made):
    options = made.parse_args()
    given = sys.argv[1:]
    options.given = given[: given.index("--worker")] if options.worker else given
    return options


def main(bench, options, dry_run):
    for flag, action in ((options.worker, work), (options.warm_part, warm)):
        if flag:
            return action(bench, options)
    return dry_run(options) if options.dry_run else supervise(bench, options)
