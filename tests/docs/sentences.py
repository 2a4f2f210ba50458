#!/usr/bin/env python3
"""Sentences in README.md and docs/ have at most 35 words. Code, tables, formulas between back quotes and addresses do not count.

usage: sentences.py SOURCE_DIR [PAGE...]
"""
import re
import sys
from pathlib import Path

LONGEST = 35


def prose(text):
    """The page with every piece that is no prose replaced; paragraphs stay apart."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "\n", text, flags=re.S | re.M)  # fenced code
    text = re.sub(r"<!--.*?-->", "\n", text, flags=re.S)
    text = re.sub(r"^ *\|[^\n]*$", "\n", text, flags=re.M)  # tables
    text = re.sub(r"(`+)[^`].*?\1", "x", text, flags=re.S)  # inline code is one word
    text = re.sub(r"\]\([^)]*\)", "]", text)  # a link counts by its text
    text = re.sub(r"https?://\S+", "x", text)
    return text


def sentences(text):
    """Sentences: they end with a full stop, a colon, a semicolon, a question mark or with the paragraph, item or heading."""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*#>]|\d+\.)\s)|(?<=\n)(?=#)", prose(text)):
        block = re.sub(r"^\s*(?:[-*#>]+|\d+\.)\s", "", block)
        yield from re.split(r"(?<=[.:;?!])[)\"*_]*\s+", block)


def words(sentence):
    return [word for word in sentence.split() if re.search(r"\w", word)]


def main():
    root = Path(sys.argv[1]).resolve()
    pages = [Path(page) for page in sys.argv[2:]] or [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    failed = False
    for page in pages:
        for sentence in sentences(page.read_text(encoding="utf-8")):
            count = len(words(sentence))
            if count > LONGEST:
                failed = True
                start = " ".join(sentence.split())[:100]
                print(f"{page.resolve().relative_to(root)}: a sentence of {count} words, at most {LONGEST}: {start}...")
    return failed


if __name__ == "__main__":
    sys.exit(main())
