#!/usr/bin/env python3
"""./dev taken-back: takes mends back, one at a time, and has the generators find the defects.

    ./dev taken-back                              all rows of tests/taken_back/table.py: some minutes
    ./dev taken-back --only sum-of-masks          those whose name holds this text
    ./dev taken-back --json tests/reports/taken-back.json

In a copy of the working tree, build-taken/tree, each row's command runs as the tree is, where it must find nothing, and
with the row's patch, where it must find the defect. Rows of Python need an interpreter with PyTorch: --python, or
EPIFUSE_PYTHON.
"""

import argparse
import filecmp
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import check
import table

ROOT = check.ROOT
SCRATCH = ROOT / "build-taken"
TREE = SCRATCH / "tree"
BUILD = TREE / "build-ci"
MOST_SECONDS = 900  # of one command


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def copy_tree():
    """What git knows of the working tree, or would; the same files keep their time, so that little is built."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    names = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    for name in names:
        source, target = ROOT / name, TREE / name
        if not target.exists() or not filecmp.cmp(source, target, shallow=False):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for path in [one for one in TREE.rglob("*") if one.is_file()]:
        name = path.relative_to(TREE)
        if name.parts[0] not in (".git", "build-ci") and "__pycache__" not in name.parts and str(name) not in names:
            path.unlink()
    if not (TREE / ".git").exists():  # so that git apply does not look at the repository around
        subprocess.run(["git", "init", "--quiet", str(TREE)], check=True)


class Builder:
    """Builds what rows need. `python`: an interpreter with PyTorch, or None."""

    def __init__(self, python):
        self.python = python
        options = []
        if python:
            tools = SCRATCH / "tools"
            if not (tools / "nanobind").exists():
                pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]
                subprocess.run([*pip, str(tools), "nanobind"], check=True)
            options = [f"-DPython_EXECUTABLE={python}", f"-Dnanobind_DIR={tools}/nanobind/cmake"]
        options.append(f"-DEPIFUSE_PYTHON={'ON' if python else 'OFF'}")
        quiet = ["cmake", "--preset", "ci", "--log-level=WARNING"]
        subprocess.run([*quiet, *options], cwd=TREE, check=True, stdout=subprocess.DEVNULL)

    def build(self, row):
        target = "epifuse_generate" if row.generator == table.GENERATORS[0] else "epifuse_python"
        done = subprocess.run(
            ["cmake", "--build", str(BUILD), "--target", target], cwd=TREE, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise SystemExit(f"{row.name}: the tree does not build:\n{done.stdout[-3000:]}")

    def command(self, row):
        given = {"build": BUILD, "tests": TREE / "python" / "tests", "python": self.python}
        return row.command.format(**given)


def git_apply(patch, *options):
    return subprocess.run(["git", "apply", *options, str(patch)], cwd=TREE, capture_output=True, text=True)


def findings(builder, row):
    """(the process, how many lines show this defect, the first of them, seconds)"""
    builder.build(row)
    environment = {**os.environ, "EPIFUSE_CACHE": "off", "PYTHONPATH": str(BUILD / "python")}
    begun = time.monotonic()
    done = subprocess.run(
        builder.command(row).split(),
        cwd=SCRATCH,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=MOST_SECONDS,
    )
    lines = [line for line in done.stdout.splitlines() if re.search(row.shows, line) and '"sentence"' not in line]
    return done, len(lines), lines[0].strip()[:400] if lines else "", time.monotonic() - begun


def judged(builder, row):
    """The row's part of the report."""
    patch = check.FOLDER / f"{row.patch}.patch"
    clean, shown, line, seconds = findings(builder, row)
    found = {
        "patch": row.patch,
        "heading": row.heading,
        "item": row.item,
        "generator": row.generator,
        "command": row.command,
        "shows": row.shows,
        "without the patch": {"exit status": clean.returncode, "findings": shown, "seconds": round(seconds)},
    }
    problem = f"finds something as the tree is: {line or clean.stdout[-600:]}" if clean.returncode or shown else ""
    if git_apply(patch).returncode != 0:
        raise SystemExit(f"{row.patch}.patch {check.STALE}")
    try:
        broken, shown, line, seconds = findings(builder, row)
    finally:
        git_apply(patch, "--reverse")
    found["with the patch"] = {
        "exit status": broken.returncode,
        "findings": shown,
        "first": line,
        "seconds": round(seconds),
    }
    if not problem and (broken.returncode == 0 or not shown):
        problem = f"does not find the defect (exit status {broken.returncode}): {broken.stdout[-600:]}"
    return found | {"problem": problem}


def write(path, report):
    """Rows that were not run keep what the file has of them."""
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    by_name = {(one["patch"], one["generator"]): one for one in [*before, *report]}
    rows = [by_name[row.patch, row.generator] for row in table.ROWS if (row.patch, row.generator) in by_name]
    path.write_text(json.dumps({"what": WHAT, "rows": rows}, indent=1) + "\n")


def python_with_torch(given):
    for one in (given, os.environ.get("EPIFUSE_PYTHON"), str(ROOT / "build-python/venv/bin/python")):
        if one and subprocess.run([one, "-c", "import torch"], capture_output=True).returncode == 0:
            return one
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name (patch / generator) holds this")
    parser.add_argument("--json", help="where the report goes")
    parser.add_argument("--python", help="an interpreter with PyTorch, NumPy and ml_dtypes")
    options = parser.parse_args()
    rows = [row for row in table.ROWS if options.only in row.name]
    if not rows:
        raise SystemExit(f"no row is called so; there are: {', '.join(row.name for row in table.ROWS)}")
    python = python_with_torch(options.python)
    needed = [row for row in rows if row.generator != table.GENERATORS[0]]
    if needed and python is None:
        raise SystemExit("rows of Python need an interpreter with PyTorch: --python, or EPIFUSE_PYTHON")
    say(f"{len(rows)} rows; the tree is built in {TREE}")
    TREE.mkdir(parents=True, exist_ok=True)
    copy_tree()
    builder, report = Builder(python if needed else None), []
    for number, row in enumerate(rows):
        report.append(judged(builder, row))
        one = report[-1]
        shown = one["with the patch"]
        outcome = one["problem"] or f"{shown['findings']} findings: {shown['first'][:120]}"
        say(f"{number + 1}/{len(rows)} {row.name}: {outcome}")
        if options.json:
            write(pathlib.Path(options.json), report)
    failed = [row for row in report if row["problem"]]
    say(f"{len(report) - len(failed)} of {len(report)} mends that were taken back are found, {len(failed)} are not")
    sys.exit(bool(failed))


WHAT = (
    "Mends of issue 24 taken back one at a time (tests/taken_back/*.patch), and which generator finds the defect: "
    "./dev taken-back --json tests/reports/taken-back.json"
)

if __name__ == "__main__":
    main()
