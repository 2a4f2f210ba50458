#!/usr/bin/env python3
"""The one writer of the benchmarks' tables and pictures.

    bench/tables.py print  RECORD.json                      # the table, as Markdown
    bench/tables.py plot   RECORD.json PICTURE.svg          # or .png; needs matplotlib
    bench/tables.py update [NAME...] [--records FOLDER]     # in the pages: all of them, from bench/results
    bench/tables.py merge  PART.json... RECORD.json         # the parts of one run, by --part 1/2 and --part 2/2

Which page holds the table of which record stands in suites.py; how a table looks, in the modules table_*.py.
"""

import argparse
import importlib
import os
import pathlib
import re
import sys

import markdown
import record
import suites


def table_of(result):
    """The Table of a suites.Result."""
    if result.table is None:
        known = ", ".join(one.name for one in suites.results() if one.table)
        raise SystemExit(f"tables.py: no table is made of '{result.name}'; there are {known}")
    module, _, name = result.table.partition(":")
    return getattr(importlib.import_module(module), name)


def read(path):
    """The document, and which Result it is."""
    document = record.read(path)
    found = next((one for one in suites.results() if one.name == document.get("suite")), None)
    if found is None:
        raise SystemExit(f"tables.py: {path}: no suite '{document.get('suite')}' in bench/suites.py")
    return document, found


def text_of(document, result):
    """The table; what records call `level2 19` is problem 19 of KernelBench's level 2."""
    picture = os.path.relpath(result.picture, pathlib.Path(result.page).parent) if result.picture else ""
    return re.sub(r"\blevel2 (\d+)", r"KernelBench L2 #\1", markdown.written(table_of(result), document, picture))


def updated(result, document, root=record.ROOT):
    """The page's text with the document's table."""
    return markdown.in_page((root / result.page).read_text(encoding="utf-8"), result.name, text_of(document, result))


def update(names, folder):
    known = {one.name: one for one in suites.results() if one.page}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"tables.py: no page has a table of {', '.join(unknown)}; there are {', '.join(known)}")
    for result in (known[name] for name in names or known):
        document = record.read(folder / f"{result.name}.json")
        (record.ROOT / result.page).write_text(updated(result, document), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("print")
    command.add_argument("record", type=pathlib.Path)
    command = commands.add_parser("plot")
    command.add_argument("record", type=pathlib.Path)
    command.add_argument("picture", type=pathlib.Path)
    command = commands.add_parser("update")
    command.add_argument("names", nargs="*", metavar="NAME")
    command.add_argument("--records", type=pathlib.Path, default=record.RESULTS, metavar="FOLDER")
    command = commands.add_parser("merge")
    command.add_argument("parts", type=pathlib.Path, nargs="+", metavar="PART.json")
    command.add_argument("record", type=pathlib.Path, metavar="RECORD.json")
    options = parser.parse_args()
    if options.command == "update":
        return update(options.names, options.records)
    if options.command == "merge":
        parts = [read(path) for path in options.parts]
        result = parts[0][1]
        return record.write(
            options.record,
            record.merged([document for document, _ in parts], table_of(result).order if result.table else None),
        )
    document, result = read(options.record)
    if options.command == "print":
        return sys.stdout.buffer.write((text_of(document, result) + "\n").encode()) and None
    if table_of(result).plot is None:
        raise SystemExit(f"tables.py: no picture is made of '{result.name}'")
    return table_of(result).plot(document, options.picture)


if __name__ == "__main__":
    sys.exit(main())
