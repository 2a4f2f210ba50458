#!/usr/bin/env python3
"""Every link between the Markdown pages resolves, its anchor too; every page and folder of docs/ that a source file names exists, and so does every
source file that a page names between back quotes.

usage: links.py SOURCE_DIR
"""
import functools
import re
import subprocess
import sys
from pathlib import Path

# Kernels are emitted from templates/, and emitted ones stand in docs/; recorded runs and inputs of fuzzers say what they said.
NOT_READ = ("bench/results/", "tests/fuzz/corpus/", "docs/internals/kernels/")
NO_TEXT = (".svg", ".png", ".npy", ".json", ".cu")
NAMED = re.compile(r"(?<!tests/)\bdocs/(?:[\w/.-]*\.(?:md|svg|cu)\b(?:#[\w-]+)?|[a-z][\w/-]*/)")


def without_code(text):
    """The page without code: what looks like a link there is none."""
    text = re.sub(r"^\s*(```|~~~).*?^\s*\1[^\n]*$", "", text, flags=re.S | re.M)
    return re.sub(r"(`+)[^`].*?\1", "", text, flags=re.S)


@functools.cache
def anchors(page):
    """The anchors of a page's headings, made as GitHub makes them."""
    found, text = set(), re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for heading in re.findall(r"^#{1,6} +(.*?) *$", text, flags=re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        while (unique := anchor if number == 0 else f"{anchor}-{number}") in found:
            number += 1
        found.add(unique)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def problem(root, target, anchor):
    if not target.exists():
        return "no such file"
    if not target.resolve().is_relative_to(root):
        return "outside of the repository"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return "no such heading"
    return None


def links(page):
    """Each link of a page: its text as it stands, the file that it names, the anchor."""
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        yield link, page if not path else page.parent / path, anchor


def mentions(root, file):
    """Each file and folder of docs/ that a file names."""
    for mention in NAMED.finditer(file.read_text(encoding="utf-8")):
        path, _, anchor = mention.group(0).partition("#")
        yield mention.group(0), root / path, anchor


def sources(root, page):
    """Each file or folder of the repository that a page names between back quotes; such as `src/plan/plan.hpp`."""
    for name in re.findall(r"`((?:src|include|templates|tests|tools|bench|python|examples|cmake)/[\w./-]+)`", page.read_text(encoding="utf-8")):
        if not re.search(r"/[A-Z]+$", name):  # a placeholder
            yield name, root / name, ""


def files(root):
    """The files of the repository; those of an archive without .git are what lies there."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True)
    names = listed.stdout.split("\0") if listed.returncode == 0 else \
        [str(path.relative_to(root)) for path in root.rglob("*") if not re.search(r"/(build|\.git|\.venv)", str(path))]
    return [root / name for name in sorted(names) if name and (root / name).is_file()]


def main():
    root = Path(sys.argv[1]).resolve()
    problems = []
    for file in files(root):
        name = str(file.relative_to(root))
        if file.suffix == ".md":
            problems += [f"{name}: {link}: {why}" for link, *target in [*links(file), *sources(root, file)] if (why := problem(root, *target))]
        if not name.startswith(NOT_READ) and file.suffix not in NO_TEXT:
            try:
                problems += [f"{name}: {page}: {why}" for page, *target in mentions(root, file) if (why := problem(root, *target))]
            except UnicodeDecodeError:
                continue
    for line in problems:
        print(line)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
