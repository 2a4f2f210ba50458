#!/usr/bin/env python3
"""The kernels of the benchmarks whose machine code differs between two commits, as a table: instructions in all and on the hot path
(bench/sass.py), registers and spilled bytes, before and after.

    tests/same/counts.py OLD_DESCRIBER NEW_DESCRIBER                 epifuse_describe of both commits (build-ci/tests/same)
    tests/same/counts.py OLD NEW --cases 'softmax' --every 5         of those whose name matches, every fifth that differs
    ./dev same REF --list FILE                                       both are built, and FILE is a page with the table

Needs NVRTC and nvdisasm. A kernel that several launches share is told once.
"""

import argparse
import json
import re

import cases
import same
import sass

HEAD = "| kernel | instructions | on the hot path | registers | spilled |\n| --- | ---: | ---: | ---: | ---: |"


def changed_sources(old, new, options):
    """(source before, source after) -> the first launch of it."""
    lines = [line for line in cases.lines([options.arch]) if re.search(options.cases, json.loads(line)["id"])]
    found = {}
    answers = zip(lines, same.answers(old, "launches", lines), same.answers(new, "launches", lines))
    for line, before, after in answers:
        pair = before.get("source"), after.get("source")
        if None not in pair and pair[0] != pair[1]:
            found.setdefault(pair, json.loads(line)["id"].removesuffix(f", sm_{options.arch}"))
    return found


def counts_of(compiled):
    text = sass.disassemble(bytes.fromhex(compiled["cubin"]))
    every = sum(spent.instructions for spent, _ in sass.blocks_of(text))
    return every, sass.spent_on_hot_path(text).instructions, compiled["registers"], compiled["spilled"]


def rows(old, new, options):
    """For each kernel whose machine code differs: its name, and [(before, after)] of each count."""
    pairs = changed_sources(old, new, options)
    sides = ([json.dumps({"architecture": options.arch, "source": pair[side]}) for pair in pairs] for side in (0, 1))
    compiled = (same.answers(describer, "code", lines) for describer, lines in zip((old, new), sides))
    for name, before, after in zip(pairs.values(), *compiled):
        if same.summary_of(before) != same.summary_of(after):
            yield name.removeprefix("reductions "), list(zip(counts_of(before), counts_of(after)))


def row(name, counts):
    return f"| {name} | {' | '.join(f'{a} → {b}' for a, b in counts)} |"


def is_counted(entry):
    return any(a != b for a, b in entry[1])


PAGE = """# Kernels whose machine code changed

Every kernel of the benchmarks' cases for sm_{arch} whose code differs from commit `{commit}`'s: instructions in all and on the hot path
(`bench/sass.py`: the way that stores most, loops counted once), registers, spilled bytes. A kernel that several launches share is
told once. `./dev same {commit} --list FILE` writes this page.

{differing} kernels differ, {counted} of them in a count. The hot path is shorter in {shorter} and longer in {longer}.

"""


def write_page(path, commit, old, new, arch):
    """The page of `./dev same REF --list FILE`; how many kernels differ."""
    require_disassembler()
    options = argparse.Namespace(arch=arch, cases="")
    differing = list(rows(old, new, options))
    hot = [counts[1] for _, counts in differing]
    told = {
        "differing": len(differing),
        "counted": sum(map(is_counted, differing)),
        "shorter": sum(after < before for before, after in hot),
        "longer": sum(after > before for before, after in hot),
    }
    table = [row(*entry) for entry in filter(is_counted, differing)]
    path.write_text(PAGE.format(arch=arch, commit=commit, **told) + "\n".join([HEAD, *table]) + "\n")
    return len(differing)


def require_disassembler():
    if sass.disassembler() is None:
        raise SystemExit("counts.py: no nvdisasm was found: install a CUDA toolkit, or Triton beside this Python")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", metavar="OLD_DESCRIBER")
    parser.add_argument("new", metavar="NEW_DESCRIBER")
    parser.add_argument("--cases", metavar="REGEX", default="", help="only launches whose name matches")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th kernel that differs")
    parser.add_argument("--arch", type=int, default=90)
    options = parser.parse_args()
    require_disassembler()
    differing = list(rows(options.old, options.new, options))
    table = [row(*entry) for entry in filter(is_counted, differing)]
    print(f"{len(differing)} kernels differ, {len(table)} of them in a count\n\n{HEAD}", *table[:: options.every], sep="\n")


if __name__ == "__main__":
    main()
