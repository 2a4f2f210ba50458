"""The tables of bench/gradients.py and bench/view_operands.py, for tables.py."""

from markdown import MISSING, Column, Table, driver, text

CONTESTANTS = ("epifuse", "compile", "eager")
HEADINGS = {"epifuse": "EpiFuse", "compile": "torch.compile", "eager": "eager"}


def head(document, _):
    records = [record for record in document["records"] if "error" not in record]
    within = sum(record["ratio"]["epifuse"] <= record["target"] for record in records)
    return [
        f"Device: {document['device']}, {driver(document)}, PyTorch {document['versions']['torch']}; a copy of 2 GiB runs at "
        f"{document['settings']['copy_gbps'] / 1e3:.2f} TB/s. At `{document['commit'][:12]}`, {document['date'][:10]}.",
        f"Times in multiples of a copy of the same bytes, at most {records[0]['target']:.2f} for {within} of {len(records)} cases of EpiFuse.",
    ]


def ratio(name):
    return lambda _, record: f"{record['ratio'][name]:.3f}" if name in record["ratio"] else MISSING


def table(*more):
    columns = [
        Column("case", **text(lambda d, r: r["case"])),
        Column("type", **text(lambda d, r: r["dtype"])),
        *more,
        Column("MB", lambda d, r: f"{r['bytes'] / 1e6:.0f}"),
        Column("copy, µs", lambda d, r: f"{r['seconds']['copy'] * 1e6:.1f}"),
        *[Column(HEADINGS[name], ratio(name)) for name in CONTESTANTS],
        Column("schedule", **text(lambda d, r: r["schedule"])),
    ]

    def groups(document):
        return [(None, columns, [record for record in document["records"] if "error" not in record])]

    def notes(document):
        failed = [f"{r['case']}, {r['dtype']}: {r['error']}" for r in document["records"] if "error" in r]
        return [("Not timed:", failed)]

    return Table(head, groups, notes)


GRADIENTS = table(Column("gradients of", **text(lambda d, r: ", ".join(r["wrt"]))))
VIEW_OPERANDS = table()
