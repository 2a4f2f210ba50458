#!/usr/bin/env python3
"""The one writer of the benchmarks' tables and pictures.

    bench/tables.py print  RECORD.json                      # the table, as Markdown
    bench/tables.py plot   RECORD.json PICTURE.svg          # or .png; needs matplotlib
    bench/tables.py update [NAME...] [--records FOLDER]     # in the pages: all of them, from bench/results; NAME is a
                                                            # suite's, or with a device a record's: pointwise-h200
    bench/tables.py merge  PART.json... RECORD.json         # the parts of one run, by --part 1/2 and --part 2/2

Which page holds the table of which record stands in suites.py; how a table looks, in the modules table_*.py. A table is
of one record, so of one device.
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
    """The table, of a device that no page shows as if on the first page. What records call `level2 19` is problem 19 of
    KernelBench's level 2."""
    device = record.device_of(document["device"])
    page, picture = result.pages.get(device, next(iter(result.pages.values()))), result.picture_of(device)
    address = os.path.relpath(picture, pathlib.Path(page).parent) if picture else ""
    return re.sub(r"\blevel2 (\d+)", r"KernelBench L2 #\1", markdown.written(table_of(result), document, address))


def shown():
    """NAME-DEVICE, as the record's file and the place in the page are called -> the Result and the device."""
    return {f"{one.name}-{device}": (one, device) for one in suites.results() for device in one.pages}


def updated(result, device, document, root=record.ROOT):
    """The page's text with the document's table."""
    if record.device_of(document["device"]) != device:
        raise SystemExit(f"tables.py: the record {result.name}-{device} is of {document['device']}")
    page = (root / result.pages[device]).read_text(encoding="utf-8")
    return markdown.in_page(page, f"{result.name}-{device}", text_of(document, result))


def update(names, folder):
    known = shown()
    chosen = [key for name in names for key, (result, _) in known.items() if name in (key, result.name)]
    unknown = [name for name in names if name not in known and name not in {one.name for one, _ in known.values()}]
    if unknown:
        raise SystemExit(f"tables.py: no page has a table of {', '.join(unknown)}; there are {', '.join(known)}")
    there = [key for key in chosen or known if (folder / f"{key}.json").exists()]
    if not there:
        raise SystemExit(f"tables.py: {folder} holds none of {', '.join(f'{key}.json' for key in chosen or known)}")
    for key in there:
        result, device = known[key]
        text = updated(result, device, record.read(folder / f"{key}.json"))
        (record.ROOT / result.pages[device]).write_text(text, encoding="utf-8")


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
