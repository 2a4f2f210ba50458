#!/usr/bin/env python3
"""The GPU's tests of cases, in several processes, and those of the Python package where it can be imported; their
verdicts in one text file.

    bench/gpu_tests.py --output gpu-tests.txt               # Cases.*, which agree with the oracle on every schedule
    bench/gpu_tests.py --filter 'Large.*' --shards 1        # other tests of gpu_test

All tests that need a GPU, one after the other: ./dev gpu-test.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import record

TOLD = re.compile(r"^\[ +(OK|FAILED|PASSED) +\]|^\[=+\]|seed|Failure")
NOTHING = re.compile(r"\b0 tests\b")  # of a process that has no share of a test
PYTHON_TESTS = record.ROOT / "python/tests/gpu"


def started(program, options, shard, more=()):
    environment = os.environ | {"GTEST_TOTAL_SHARDS": str(options.shards), "GTEST_SHARD_INDEX": str(shard)}
    return subprocess.Popen(
        [program, f"--gtest_filter={options.filter}", *more],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def told_by(lines, code):
    """What is kept of a process's lines: all where it failed, since what an exception says is on a line of its own."""
    return lines if code else [line for line in lines if TOLD.search(line) and not NOTHING.search(line)]


def of_cpp(program, options):
    """Lines, and how many processes failed."""
    lines, failed = [], 0
    for shard, process in enumerate([started(program, options, shard) for shard in range(options.shards)], 1):
        told = told_by(process.communicate()[0].splitlines(), process.returncode)
        lines += [f"== shard {shard} of {options.shards}", *told]
        failed += process.returncode != 0
    return lines, failed


def of_python():
    missing = [module for module in ("epifuse", "torch", "pytest") if not importlib.util.find_spec(module)]
    if missing:
        return [f"== not run, for want of {', '.join(missing)}: python/tests/gpu"], 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-rs", PYTHON_TESTS],
        capture_output=True,
        text=True,
        check=False,
    )
    return ["== python/tests/gpu", *(done.stdout + done.stderr).splitlines()], done.returncode != 0


def dry_run(program, options):
    listed = subprocess.run(
        [program, f"--gtest_filter={options.filter}", "--gtest_list_tests"], capture_output=True, text=True, check=False
    )
    tests = [line for line in listed.stdout.splitlines() if line.startswith("  ")]
    print(f"{program}: {len(tests)} tests match {options.filter}")
    return 0 if tests and listed.returncode == 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=record.ROOT / "build")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--filter", default="Cases.*", help="GoogleTest's (%(default)s)")
    parser.add_argument("--shards", type=int, default=3, help="processes (%(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="what needs no GPU")
    options = parser.parse_args()
    program = options.build / "tests/gpu_test"
    if options.dry_run:
        return dry_run(program, options)
    lines, failed = of_cpp(program, options)
    more, failed_python = of_python()
    machine = f"{record.asked_of_gpu('name')}, {record.asked_of_gpu('driver_version')}, commit {record.commit()}"
    text = "\n".join([f"{machine}: gpu_test --gtest_filter={options.filter}", *lines, *more]) + "\n"
    print(text, end="")
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    return 1 if failed or failed_python else 0


if __name__ == "__main__":
    sys.exit(main())
