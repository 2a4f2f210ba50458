#!/usr/bin/env python3
"""Whether every patch of this folder still applies, and whether the table and the folder agree. The test
generator.taken_back_patches."""

import pathlib
import shutil
import subprocess
import sys

import table

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
SKIPPED = 77
STALE = "applies no longer: undo its mend in today's code and write the patch anew with git diff"


def problem_of(patch, root=ROOT):
    """Why it does not apply; "" if it does."""
    done = subprocess.run(["git", "apply", "--check", str(patch)], cwd=root, capture_output=True, text=True)
    return done.stderr.strip()


def main():
    if shutil.which("git") is None:
        print("git is missing: whether the patches apply is not tested")
        return SKIPPED
    files = {path.stem for path in FOLDER.glob("*.patch")}
    problems = [f"{name}.patch is in no row of table.py" for name in sorted(files - {row.patch for row in table.ROWS})]
    for name in dict.fromkeys(row.patch for row in table.ROWS):
        text = problem_of(FOLDER / f"{name}.patch")
        if text:
            problems.append(f"{name}.patch {STALE}: {text}")
    for generator in table.GENERATORS:
        for heading in table.HEADINGS:
            if not any((row.generator, row.heading) == (generator, heading) for row in table.ROWS):
                problems.append(f"no row shows that '{generator}' finds '{heading}'")
    print("\n".join(problems) or f"{len(files)} patches apply, {len(table.ROWS)} rows")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
