#!/usr/bin/env python3
"""Runs python/examples/tutorial.py, the five models, and puts what it measured into a record file.

bench/python_tutorial.py --output python-tutorial.json
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import record

TUTORIAL = record.ROOT / "python/examples/tutorial.py"


def dry_run():
    """Without a GPU: the tutorial compiles; with PyTorch and the package it runs on the CPU, with small shapes."""
    compile(TUTORIAL.read_text(encoding="utf-8"), str(TUTORIAL), "exec")
    try:
        import torch  # noqa: F401

        import epifuse  # noqa: F401
    except ImportError as problem:
        print(f"the tutorial compiles; it was not run: {problem}")
        return 0
    return subprocess.run([sys.executable, TUTORIAL], check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="what needs no GPU")
    options = parser.parse_args()
    if options.dry_run:
        return dry_run()
    with tempfile.TemporaryDirectory() as folder:
        raw = pathlib.Path(folder) / "tutorial.json"
        code = subprocess.run([sys.executable, TUTORIAL, "--output", raw], check=False).returncode
        if code:
            return code
        found = json.loads(raw.read_text(encoding="utf-8"))
    if options.output:
        import epifuse

        record.write(
            options.output,
            record.made(
                "python-tutorial",
                device=found["device"],
                driver=record.asked_of_gpu("driver_version"),
                versions={"epifuse": epifuse.__version__, "torch": found["torch"]},
                command="python/examples/tutorial.py",
                records=found["rows"],
            ),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
