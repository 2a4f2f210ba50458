#!/usr/bin/env python3
"""Every kernel of the benchmarks' cases holds what it uses, in one order: no function, type or constant that nothing
mentions, no branch for a host compiler, no statement that only calls an empty function; types and parameters above the
functions, each function below those that it calls, the kernel last. Judged by regular expressions, apart from the code
that makes sources lean.

usage: sources.py EPIFUSE_DESCRIBE
"""

import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "same"))
import cases

COMMENT = re.compile(r"//[^\n]*")
WORD = re.compile(r"[A-Za-z_]\w*")
# At the beginning of a line, or of one that a template's head stands on.
FUNCTION = re.compile(r"^(?:extern \"C\" __global__|__device__ __forceinline__)[^;{]*?(\w+)(?:<[\w, ]+>)?\((?=[^;{]*(?:\{|;))", re.M)
MEMBER = re.compile(r"^  __device__ __forceinline__[^;{]*?(\w+)\([^;{]*\{", re.M)
TYPE = re.compile(r"^(?:struct (?:alignas\([^\n]*?\) )?|enum class )(\w+)(?:<\d+>)?[^;{]*\{", re.M)
CONSTANT = re.compile(r"^constexpr \w+ (\w+) =", re.M)
EMPTY = re.compile(r"^ *__device__[^;{]* void (\w+)\([^;{]*\) \{\s*\}", re.M)


def complaints(source):
    """What is wrong with a source."""
    text = re.sub(r"__launch_bounds__\([^)]*\) |__attribute__\(\(.*?\)\)\) ", "", COMMENT.sub("", source))
    used = {}
    for word in WORD.findall(text):
        used[word] = used.get(word, 0) + 1
    functions = [(found[1], found.start()) for found in FUNCTION.finditer(text)]
    if not functions or not functions[-1][0].startswith("epifuse_"):
        yield "the kernel is not the last function"
    declared = {}
    for name, _ in functions + [(found[1], 0) for found in MEMBER.finditer(text)]:
        declared[name] = declared.get(name, 0) + 1
    for name, count in declared.items():
        if used[name] <= count and name not in (functions[-1][0], "operator"):
            yield f"nothing calls {name}()"
    types = list(TYPE.finditer(text))
    for found in types:
        if used[found[1]] == 1:
            yield f"nothing mentions {found[1]}"
    for found in CONSTANT.finditer(text):
        if used[found[1]] == 1:
            yield f"nothing mentions {found[1]}"
    empty = [found[1] for found in EMPTY.finditer(text)]
    for name in set(empty):
        # That of another type may do something, and a branch may need a statement.
        if empty.count(name) == declared.get(name) and re.search(rf"[;{{}}]\n +(?:\w+\.)?{name}\([^()]*\);\n", text):
            yield f"{name}() does nothing"
    if "__CUDACC__" in text or "__builtin_" in text:
        yield "there is a branch for another compiler"
    parameters = re.search(r"^struct Params \{", text, re.M)
    if parameters is None or parameters.start() > functions[0][1]:
        yield "struct Params does not stand above the functions"
    for name, at in functions[:-1]:
        call = re.search(rf"(?<![.>:\w]){name}(?:<[^;()]*>)?\(", text)
        if call.start() < at and all(other[1] > call.start() for other in functions if other[0] == name):
            yield f"{name}() stands below its call"


def main():
    lines = cases.lines([90])
    answered = subprocess.run([sys.argv[1], "launches"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    sources = {}
    for line, answer in zip(lines, answered.stdout.splitlines(), strict=True):
        sources.setdefault(json.loads(answer).get("source"), json.loads(line)["id"])
    sources.pop(None, None)
    failed = 0
    for source, name in sources.items():
        for complaint in complaints(source):
            print(f"{name}: {complaint}")
            failed += 1
    print(f"{len(sources)} kernels, {sum(source.count(chr(10)) for source in sources)} lines")
    return 1 if failed or len(sources) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
