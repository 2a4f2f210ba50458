#!/usr/bin/env python3
"""The words that docs/internals/glossary.md replaced are not used again: not in names of files, functions, types and tests, not in comments, help
texts and emitted text, not in the documents.

usage: words.py SOURCE_DIR [FILE...]
       words.py --self-test
"""
import contextlib
import io
import re
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

# Retired words, and what is said instead. A word of a name is one of its parts: row_teams and RowTeams both hold `teams`.
NAMES = {
    "ahead": "prefetch, prefetch_distance",
    "averages": "segment_means",
    "backwards": "reverse_order",
    "carried": "saved",
    "crossed": "tiled_2d, transposed",
    "crosses": "transposes_stores",
    "crossing": "transposed_store",
    "dear": "expensive",
    "flagged": "ValueWithStatus",
    "framed": "tensor_aligned",
    "halo": "tile_overlap",
    "kept": "held, split_resident, parallel (dimension)",
    "patience": "kSpinLimit",
    "part": "segment, chunk, partial",
    "parts": "segments, chunks, partials",
    "piece": "run, Chunk16",
    "pieces": "runs, vectors_per_run, chunks16",
    "room": "component; space",
    "rooms": "components",
    "shifted": "transposed_unaligned",
    "steady": "hoisted, loop-invariant",
    "straight": "full_vector",
    "team": "thread group, group_threads; schedule resident",
    "teams": "thread groups",
    "turned": "transpose, transposed",
    "walk": "pass; StridedOperand",
    "walked": "read, iterated over",
    "walks": "passes",
}
# In prose: comments, strings, documents. These have no other meaning here, or none that another word does not say as well.
PROSE = {
    "across memory": "outer reduction",
    "across rows": "grid reduction",
    "along memory": "inner reduction",
    "asked ahead": "prefetched",
    "asks ahead": "prefetches",
    "backwards": "in reverse order",
    "dear": "expensive",
    "halo": "overlap",
    "kept dimension": "parallel dimension",
    "kept dimensions": "parallel dimensions",
    "kept rows": "rows of split_resident",
    "parts of rows": "segments of rows",
    "results turn": "results are transposed",
    "room": "component; space",
    "rooms": "components",
    "steady": "hoisted, loop-invariant",
    "straight group": "full vector",
    "straight groups": "full vectors",
    "team": "thread group; schedule resident",
    "teams": "thread groups",
    "walk": "pass",
    "walked": "read, iterated over",
    "walks": "passes",
    "words beside flags": "values with a status",
}
ANY_PROSE = re.compile(
    r"(?<![\w-])(?:%s)(?![\w-])" % "|".join(sorted((w.replace(" ", r"\s+(?:// )?") for w in PROSE), key=len, reverse=True)), re.I
)
LEVEL2 = re.compile(r"\blevel2 \d+")  # KernelBench L2 #19

# What no program can tell from English or from another standard word; they are looked for by those who read a change.
NOT_CHECKED = {
    "level": "of logs, of KernelBench and of forward mode; only names in src/plan, src/codegen and templates could be told apart",
    "rows": "rows of a matrix are rows",
    "group": "GroupNorm, thread groups, groups of operations",
    "whole": "an English word",
    "along": "an operation of the language, and an English word",
    "across": "an English word",
    "turn": "whose turn it is to compile (src/jit/cache_turn.hpp); \"in turn\"",
    "extent": "the size of a dimension",
    "loop": "a statement of C++",
    "streams": "of CUDA",
    "narrow": "of types and conversions",
    "light": "an English word",
    "spread": "an English word",
    "line": "of memory and of text",
    "keep": "an English verb",
    "ask": "an English verb",
    "tail": "Python's public name of an epilogue",
    "interleaved": "interleaved rows",
}

# (word, files, why). `*` crosses folders.
ALLOWED = (
    ("*", "docs/internals/glossary.md", "names what was replaced where that helps"),
    ("*", "tests/docs/words.py", "holds the words"),
    ("*", "CHANGELOG.md", "is history"),
    ("*", "bench/results/*", "records, found by the words of their time"),
    ("*", "docs/measurements/*", "quotes the names of measured cases and what was tried under names of their time"),
    ("*", "tests/*/corpus/*", "data"),
    ("team", "bench/plans.py", "reads records from before schedules had their names"),
    ("*", "docs/images/*-h?00.svg", "drawn from records"),
)
# The folders whose names are held to NAMES; elsewhere the same letters are English (a part of a file, a piece of text).
NAMED = ("src/plan/*", "src/codegen/*", "templates/*.cuh", "include/*", "tests/plan/*.cpp", "tests/codegen/*", "tests/emitted/*", "docs/internals/kernels/*.cu")
OWN = (  # (name, why) in those folders
    ("carried_out", "done"),
    ("exp_parts", "the halves of a number"),
    ("fork_parts", "of a name"),
    ("kPart", "a constant of a test"),
    ("part_of", "belongs to"),
    ("parts_of_name", "of a name"),
    ("steady_clock", "of the standard library"),
)
SOURCES = (".cpp", ".hpp", ".cuh", ".cu", ".h", ".def", ".py", ".md", ".cmake", ".txt", ".svg", ".sh")
PAGES = "docs/guide/"
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def pieces_of(name):
    """The words of a name: row_teams, RowTeams and kRowTeams hold `teams`."""
    return [piece.lower() for piece in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def is_allowed(word, file):
    return any(fnmatchcase(word, of) and fnmatchcase(file, pattern) for of, pattern, _ in ALLOWED)


def code_and_prose(text, file):
    """The text with comments blanked, and with everything else blanked; strings are prose too, and code where they are emitted."""
    if file.endswith((".md", ".txt", ".svg")):
        return "", text
    comment = r"//[^\n]*|/\*.*?\*/" if file.endswith((".cpp", ".hpp", ".cuh", ".cu", ".h", ".def")) else r'"""(?:.|\n)*?"""|#[^\n]*'
    blank = lambda found: re.sub(r"[^\n]", " ", found[0])
    code = re.sub(comment, blank, text, flags=re.S)
    prose = list(blank(re.match(r"(?s).*", text)))
    for found in re.finditer(comment + r'|"(?:\\.|[^"\\\n])*"', text, flags=re.S):
        prose[found.start():found.end()] = text[found.start():found.end()]
    return code, "".join(prose)


def complaints(text, file):
    """(line, word, instead) for what a file says, its own name first."""
    for part in Path(file).parts:
        for piece in pieces_of(part):
            if piece in NAMES and piece not in ("part", "parts", "piece", "patience", "kept") and not is_allowed(piece, file):
                yield 0, piece, NAMES[piece]
    code, prose = code_and_prose(text, file)
    if any(fnmatchcase(file, pattern) for pattern in NAMED):
        for found in IDENTIFIER.finditer(code):
            if any(found[0] == name for name, _ in OWN):
                continue
            for piece in pieces_of(found[0]):
                if piece in NAMES and not is_allowed(piece, file):
                    yield text.count("\n", 0, found.start()) + 1, found[0], NAMES[piece]
    for found in ANY_PROSE.finditer(prose):
        word = " ".join(found[0].replace("//", " ").lower().split())
        if not is_allowed(word, file):
            yield text.count("\n", 0, found.start()) + 1, word, PROSE[word]
    for found in LEVEL2.finditer(prose):
        if not is_allowed("level2", file) and file.startswith(("src/", "templates/", "docs/", "README")):
            yield text.count("\n", 0, found.start()) + 1, found[0], "KernelBench L2 #N"


def listed(root):
    names = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout
    return [name for name in names.splitlines() if name.endswith(SOURCES)]


def check(root, names):
    failed = False
    for name in names:
        path = root / name
        if not path.is_file():
            continue
        for line, word, instead in complaints(path.read_text(encoding="utf-8"), name):
            failed = True
            print(f"{name}:{line}: '{word}' is retired; say {instead} (docs/internals/glossary.md)")
    return failed


def self_test():
    """A retired word in each kind of place is found, and an innocent text is not accused."""
    cases = {
        "src/plan/a.cpp": ("int row_teams = 1;\n", "row_teams"),
        "src/plan/b.hpp": ("struct RowTeams {};\n", "RowTeams"),
        "templates/c.cuh": ("constexpr int kHalo = 1;\n", "kHalo"),
        "src/codegen/d.cpp": ('out += "constexpr int kWalks = 2;";\n', "kWalks"),
        "src/jit/e.cpp": ("// each walk over the list\n", "walk"),
        "tools/f.cpp": ('help("a team of threads");\n', "team"),
        PAGES + "g.md": ("Results turn in shared memory.\n", "results turn"),
        PAGES + "h.md": ("Of level2 19.\n", "level2 19"),
        "python/epifuse/i.py": ('"""Read backwards."""\n', "backwards"),
        "src/plan/row_teams.cpp": ("\n", "teams"),
        "src/plan/RowTeams.cpp": ("\n", "teams"),
    }
    for name, (text, word) in cases.items():
        found = [what for _, what, _ in complaints(text, name)]
        assert word in found, f"{name}: {text!r} holds '{word}', found {found}"
    for name, text in {"src/plan/a.cpp": "// thread groups, in steps, steamed\nint groups;\n", "bench/b.py": "parts = 'a'.split()\n"}.items():
        assert not list(complaints(text, name)), f"{name} is accused: {list(complaints(text, name))}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.md").write_text("A walk.\n")
        with contextlib.redirect_stdout(io.StringIO()):
            assert check(Path(folder), ["a.md"])
    assert not set(NOT_CHECKED) & set(PROSE), "a word is checked or it is not"


def main():
    if sys.argv[1] == "--self-test":
        self_test()
        return 0
    root = Path(sys.argv[1]).resolve()
    return check(root, sys.argv[2:] or listed(root))


if __name__ == "__main__":
    sys.exit(main())
