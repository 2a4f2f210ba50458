#!/usr/bin/env python3
"""The C interface stays what it was: abi.txt lists every function, number and field of include/epifuse/epifuse.h.

    abi.py HEADER ABI.txt LIBRARY [--update]

A line of abi.txt that the header no longer has is a broken promise: programs that were built before would call
something else. What the header has and abi.txt has not is new: --update adds it. LIBRARY must define every function; a
shared one with a version.
"""

import pathlib
import re
import subprocess
import sys


def declarations(text):
    """Functions, enumerators with their numbers, fields of structures in order, constants: one line each."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    found = [f"constant {name} {value}" for name, value in re.findall(r"^#define (EPIFUSE_MAX_\w+) (\d+)$", text, re.M)]
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \w+;", text, re.S):
        fields = [" ".join(field.split()) for field in body.split(";") if field.strip()]
        found += [f"field {name} {number}: {field}" for number, field in enumerate(fields)]
    text = re.sub(r"typedef struct \w+ \{.*?\} \w+;", "", text, flags=re.S)
    for body in re.findall(r"\benum \{(.*?)\};", text, re.S):
        found += [f"number {' '.join(one.split())}" for one in body.split(",") if one.strip()]
    text = re.sub(r"\benum \{.*?\};", "", text, flags=re.S)
    statements = [" ".join(one.split()) for one in text.replace('extern "C" {', "").replace("}", "").split(";")]
    found += [("type " if one.startswith("typedef") else "function ") + one for one in statements if one]
    return found


def functions(lines):
    return [re.search(r"(\w+)\(", line)[1] for line in lines if line.startswith("function ")]


def problems_of(library, names):
    shared = library.suffix == ".so"
    listed = subprocess.run(
        ["nm", *(["-D"] if shared else []), "--defined-only", str(library)], capture_output=True, text=True, check=False
    ).stdout
    defined = dict(re.findall(r" T (epifuse_\w+)(@@\w+)?$", listed, re.M))
    found = [f"{library.name} does not define {name}" for name in names if name not in defined]
    if shared:
        found += [f"{library.name}: {name} has no version" for name in names if defined.get(name) == ""]
    return found + [f"{library.name} defines {name}, which the header lacks" for name in sorted(set(defined) - set(names))]


def main():
    header, promised, library = map(pathlib.Path, sys.argv[1:4])
    lines = declarations(header.read_text(encoding="utf-8"))
    if "--update" in sys.argv:
        promised.write_text("\n".join(lines) + "\n", encoding="utf-8")
    known = promised.read_text(encoding="utf-8").splitlines()
    problems = [f"{header.name} has no longer: {line}" for line in known if line not in lines]
    problems += [f"{promised.name} lacks, add it by --update: {line}" for line in lines if line not in known]
    problems += problems_of(library, functions(lines))
    print("\n".join(problems) or f"{len(lines)} lines are as they were, {len(functions(lines))} functions are defined")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
