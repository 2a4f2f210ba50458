#!/usr/bin/env python3
"""The readable plans of the benchmarks' cases, for an H100: one file for each group of cases under tests/plan/golden/, so that a review
shows what a change of policy did.

    tests/same/golden.py DESCRIBER             compares; prints what differs, old beside new; exit status 1 if something does
    tests/same/golden.py DESCRIBER --update    writes the files anew
"""

import argparse
import difflib
import json
import re
import subprocess
import sys

import cases

FOLDER = cases.ROOT / "tests" / "plan" / "golden"
SHOWN_LINES = 60


def file_of(group):
    """The name of a group of the benchmarks as that of a file."""
    return re.sub(r"[^a-z0-9]+", "-", group.lower()).strip("-") + ".txt"


def plans(describer):
    """File name -> text."""
    launches = list(cases.grouped(architectures=(90,)))
    lines = "".join(json.dumps(launch) + "\n" for _, launch in launches)
    answered = subprocess.run([describer, "text"], input=lines, capture_output=True, text=True, check=True).stdout
    files = {}
    for (group, launch), answer in zip(launches, map(json.loads, answered.splitlines())):
        text = answer.get("text") or f"refused: {answer['error']}\n"
        head = f"# {launch['id'].removesuffix(', sm_90')}: {launch['chain']}\n"
        files.setdefault(file_of(group), []).append(head + text.rstrip() + "\n")
    return {name: "\n".join(texts) for name, texts in files.items()}


def update(made):
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)


def differences(made):
    kept = {path.name: path.read_text() for path in FOLDER.glob("*.txt")}
    for name in sorted(made.keys() | kept.keys()):
        old, new = kept.get(name, ""), made.get(name, "")
        if old != new:
            yield from difflib.unified_diff(old.splitlines(), new.splitlines(), name, "now", lineterm="", n=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("describer", metavar="DESCRIBER", help="build-ci/tests/same/epifuse_describe")
    parser.add_argument("--update", action="store_true", help="write the files anew")
    options = parser.parse_args()
    made = plans(options.describer)
    if options.update:
        update(made)
        return 0
    lines = list(differences(made))
    print(*lines[:SHOWN_LINES], sep="\n", end="\n" if lines else "")
    if len(lines) > SHOWN_LINES:
        print(f"({len(lines) - SHOWN_LINES} more lines)")
    if lines:
        print("plans differ from tests/plan/golden; if that is meant: tests/same/golden.py DESCRIBER --update")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
