#!/usr/bin/env python3
"""Makes one JSON document of the examples' records, and the table of docs/measurements/examples.md of that document.

    examples_table.py collect RECORDS.jsonl DOCUMENT.json --commit HASH --driver VERSION
    examples_table.py print   DOCUMENT.json
    examples_table.py update  DOCUMENT.json docs/measurements/examples.md
"""
import argparse
import datetime
import json
import pathlib
import sys

from markdown import row, with_table

COLUMNS = [  # heading, alignment, cell
    ("example", "---", lambda r: r["example"].replace("_", " ")),
    ("type", "---", lambda r: r["dtype"]),
    ("layout", "---", lambda r: r["layout"]),
    ("producer ms", "---:", lambda r: f"{r['producer_ms']:.3f}"),
    ("tail ms", "---:", lambda r: f"{r['tail_ms']:.4f}"),
    ("copy ms", "---:", lambda r: f"{r['copy_ms']:.4f}"),
    ("tail / copy", "---:", lambda r: f"{r['ratio']:.2f}"),
    ("both ms", "---:", lambda r: f"{r['pair_ms']:.3f}"),
    ("tail GB/s", "---:", lambda r: f"{r['gbps']:.0f}"),
    ("max error", "---:", lambda r: f"{r['max_error']:.1e}"),
    ("samples", "---:", lambda r: str(r["samples"])),
    ("verified", "---", lambda r: "yes" if r["verified"] else "**NO**"),
]
COMMON = ("device", "cuda_runtime", "epifuse")  # one value in all records of a document


def one_value(records, key):
    values = {record[key] for record in records}
    if len(values) != 1:
        found = ", ".join(sorted(values)) or "none at all"
        raise SystemExit(f"examples_table.py: expected one {key} in all records, found {found}; are they of one run?")
    return values.pop()


def collect(records, commit, driver):
    document = {key: one_value(records, key) for key in COMMON}
    document["driver"] = driver
    document["libraries"] = sorted({record["library"] for record in records})
    document["date"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    document["commit"] = commit
    document["records"] = records
    return document


def table(document):
    lines = [
        f"{document['device']}, driver {document['driver']}, CUDA runtime {document['cuda_runtime']}, "
        f"{', '.join(document['libraries'])}; EpiFuse {document['epifuse']} at `{document['commit'][:12]}`, "
        f"{document['date'][:10]}.",
        "",
        row(heading for heading, _, _ in COLUMNS),
        row(alignment for _, alignment, _ in COLUMNS),
    ]
    lines += [row(cell(record) for _, _, cell in COLUMNS) for record in document["records"]]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("collect")
    command.add_argument("records", type=pathlib.Path)
    command.add_argument("document", type=pathlib.Path)
    command.add_argument("--commit", required=True)
    command.add_argument("--driver", required=True)
    command = commands.add_parser("print")
    command.add_argument("document", type=pathlib.Path)
    command = commands.add_parser("update")
    command.add_argument("document", type=pathlib.Path)
    command.add_argument("page", type=pathlib.Path)
    options = parser.parse_args()

    if options.command == "collect":
        records = [json.loads(line) for line in options.records.read_text(encoding="utf-8").splitlines()]
        text = json.dumps(collect(records, options.commit, options.driver), indent=2, ensure_ascii=False)
        options.document.write_text(text + "\n", encoding="utf-8")
        return
    new_table = table(json.loads(options.document.read_text(encoding="utf-8")))
    if options.command == "print":
        sys.stdout.buffer.write((new_table + "\n").encode())
    else:
        options.page.write_text(with_table(options.page.read_text(encoding="utf-8"), "examples_table.py", new_table), encoding="utf-8")


if __name__ == "__main__":
    main()
