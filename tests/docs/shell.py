#!/usr/bin/env python3
"""Command lines of `epifuse` quote what a shell takes for a pattern: no [ ] * ? stands outside of quotes. zsh refuses
x=f16[8,16], and other shells replace it where a file has a matching name. This reads fenced blocks and inline code of
README.md and docs/, and the examples in help texts of tools/.

usage: shell.py SOURCE_DIR
       shell.py --self-test
"""
import re
import sys
from pathlib import Path

PATTERN = "[]*?"
SHELLS = ("sh", "bash", "zsh", "shell", "console", "")
FENCED = re.compile(r"^( *)(```|~~~)([\w-]*)[^\n]*\n(.*?)^ *\2", re.S | re.M)
INLINE = re.compile(r"(?<!`)`(epifuse [^`\n]*)`(?!`)")
LITERALS = re.compile(r'"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*')  # neighbours are one literal in C++


def words(line):
    """The words of a command line, with None between two commands. A word is its text, and whether one of PATTERN
    stands outside of quotes."""
    found, text, is_pattern, quote, at = [], None, False, "", 0
    while at < len(line):
        letter = line[at]
        if quote:
            if letter == "\\" and quote == '"':
                at += 1
                text += line[at:at + 1]
            elif letter == quote:
                quote = ""
            else:
                text += letter
        elif letter in "'\"":
            quote, text = letter, text or ""
        elif letter == "#" and text is None:
            break
        elif letter.isspace() or letter in "|&;()<>":
            if text is not None:
                found.append((text, is_pattern))
            text, is_pattern = None, False
            if letter in "|&;()":
                found.append(None)
        else:
            if letter == "\\":
                at += 1
                letter = line[at:at + 1]
            else:
                is_pattern |= letter in PATTERN
            text = (text or "") + letter
        at += 1
    return found + ([(text, is_pattern)] if text is not None else [])


def unquoted(line):
    """The words of `epifuse` commands on a line that a shell takes for a pattern."""
    commands = [[]]
    for word in words(line):
        if word is None:
            commands.append([])
        else:
            commands[-1].append(word)
    for command in commands:
        names = [text for text, _ in command if not re.match(r"\w+=", text)]
        if names and names[0].rpartition("/")[2] == "epifuse":
            yield from (text for text, is_pattern in command if is_pattern)


def joined(block, first):
    """(number, line) of the commands of a fenced block. A line that ends with a backslash goes on. Where there is a
    prompt, other lines are output."""
    lines = block.split("\n")
    has_prompt = any(re.match(r" *[$%] ", line) for line in lines)
    at = 0
    while at < len(lines):
        start, line = at, lines[at]
        while line.endswith("\\") and at + 1 < len(lines):
            at += 1
            line = line[:-1] + lines[at]
        at += 1
        if has_prompt and not re.match(r" *[$%] ", line):
            continue
        yield first + start, re.sub(r"^ *[$%] ", "", line)


def commands_of_page(text):
    """(number, line) of all that a reader may copy into a shell."""
    for block in FENCED.finditer(text):
        if block[3] in SHELLS:
            yield from joined(block[4], text.count("\n", 0, block.start(4)) + 1)
    plain = FENCED.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
    for code in INLINE.finditer(plain):
        yield plain.count("\n", 0, code.start()) + 1, code[1]


def commands_of_source(text):
    """(number, line) of the examples in the string literals of a C++ file: an indented line of a help text, or what
    follows a colon."""
    for literal in LITERALS.finditer(text):
        said = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', literal[0]))
        said = said.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
        for line in said.split("\n"):
            if example := re.search(r"(?:^ +|: +|\| *)(epifuse .*)", line):
                yield text.count("\n", 0, literal.start()) + 1, example[1]


def complaints(root):
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    for page in [*pages, *sorted((root / "tools").glob("*.cpp"))]:
        of_file = commands_of_page if page.suffix == ".md" else commands_of_source
        for number, line in of_file(page.read_text(encoding="utf-8")):
            for word in unquoted(line):
                yield f"{page.relative_to(root)}:{number}: a shell takes {word} for a pattern; write '{word}'"


def self_test():
    """A planted pattern is found in each kind of place, and what is quoted or is no command is not accused."""
    def found(text, of_file=commands_of_page):
        return [(number, word) for number, line in of_file(text) for word in unquoted(line)]

    for line, word in {
        "epifuse run 'relu(x)' x=f16[8,16]": "x=f16[8,16]",
        "./build/tools/epifuse run 'relu(x)' x=f16[8,16]:nhwc": "x=f16[8,16]:nhwc",
        "EPIFUSE_LOG=debug epifuse dump \"relu(x)\" x=f32[] # why": "x=f32[]",
        "cat x.npy | epifuse run x*2 x=@-": "x*2",
        "source <(epifuse dump x? x=@x.npy)": "x?",
        "epifuse run x 'x=f32[4]' && epifuse run y y=f32[4]": "y=f32[4]",
        "epifuse run 'it'\\''s' \"x=f32[4]\" y=i8[4]": "y=i8[4]",
    }.items():
        for language in ("sh", "console", ""):
            prompt = "" if language == "sh" else "$ "
            page = f"Text.\n\n```{language}\n{prompt}{line}\n```\n\nMore.\n"
            assert found(page) == [(4, word)], f"{page!r}: {found(page)}"
    assert found("```sh\nepifuse run 'relu(x)' \\\n  x=f16[8]\n```\n") == [(2, "x=f16[8]")]
    assert found("- An item:\n\n  ```sh\n  epifuse run x x=f16[8]\n  ```\n") == [(4, "x=f16[8]")]
    assert found("As `epifuse run x x=f32[4]` does.\n") == [(1, "x=f32[4]")]
    help_text = 'f(\n  "Examples:\\n"\n  "  epifuse run \\"relu(x)\\" x=f32[4] "\n  "--json\\n");\n'
    assert found(help_text, commands_of_source) == [(2, "x=f32[4]")]
    assert found('"goes after \'--\': epifuse run -- \\"-x\\" x=f32[4]"', commands_of_source) == [(1, "x=f32[4]")]
    for innocent in (
        "```sh\nepifuse run \"t = x * 2; return t[0]\" 'x=f16[8]' \"y=f16[8]:strides(1)\" z=@z.npy\n```\n",
        "```sh\necho '\"relu(x)\" x=f16[8]' | epifuse warm -\nls *.npy [ab]?\n```\n",
        "```console\n$ epifuse dump x 'x=f32[4]' | grep -E 'a[b]'\nx=f32[4] epifuse run x[0]\nepifuse x[0]\n```\n",
        "```cpp\nepifuse run x x=f32[4]\n```\n",
        "`x=f16[8,16]`, and `relu(x)`\n",
        "```sh\nepifuse run x\\[0\\] x=@x.npy  # x=f32[4], *\n```\n",
    ):
        assert not found(innocent), f"{innocent!r} is accused: {found(innocent)}"
    assert not found('"  \'epifuse dump\' takes: x=f16[8]\\n"', commands_of_source)


def main():
    if sys.argv[1] == "--self-test":
        self_test()
        return 0
    found = list(complaints(Path(sys.argv[1]).resolve()))
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
