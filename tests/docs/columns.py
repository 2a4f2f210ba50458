#!/usr/bin/env python3
"""Lines that hold a comment and nothing else have at most 120 columns, in all C and C++ of the project. clang-format
does not break comments anew, so nothing else looks.

usage: columns.py SOURCE_DIR
       columns.py --self-test
"""
import re
import sys
from pathlib import Path

MOST = 120
FOLDERS = ("include", "src", "tools", "tests", "bench", "python", "examples")
SUFFIXES = (".h", ".hpp", ".cpp", ".c")
COMMENT = re.compile(r"\s*(//|/\*|\* )")
URL = re.compile(r"https?://\S{60,}")  # cannot be broken


def problems_in(name, text):
    return [
        f"{name}:{number}: a comment of {len(line)} columns; at most {MOST} fit"
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > MOST and COMMENT.match(line) and not URL.search(line)
    ]


def self_test():
    long = "// " + "word " * 24
    assert problems_in("a.cpp", f"int x;\n{long}\n") == ["a.cpp:2: a comment of 123 columns; at most 120 fit"]
    assert problems_in("a.cpp", f"  /// {'é' * 114}\n") == []
    assert problems_in("a.cpp", f"call({'x' * 120});  // why\n") == []


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = Path(sys.argv[1])
    files = [one for folder in FOLDERS for one in sorted((root / folder).rglob("*")) if one.suffix in SUFFIXES]
    problems = [line for one in files for line in problems_in(one.relative_to(root), one.read_text())]
    print("\n".join(problems) or f"{len(files)} files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
