"""The table of what kernels of quantising tails cost, for tables.py: one line per tail, sm_90 and sm_100 beside each other."""

from markdown import MISSING, Column, Table, driver, text


def head(document, _):
    settings, records = document["settings"], document["records"]
    within = sum(one["ratio"] <= 1.03 for one in records)
    return [
        f"Device: {document['device']}, {driver(document)}, EpiFuse at `{document['commit'][:12]}`, {document['date'][:10]}. "
        f"{settings['rows']}×{settings['columns']} elements in bf16. Of {len(records)} kernels {within} move at most 1.03 of the least bytes: "
        "each operand and each result once. Cells with two values are sm_90, sm_100."
    ]


def pairs(document):
    """The records of a tail together, by architecture."""
    found = {}
    for one in document["records"]:
        found.setdefault(one["tail"], {})[one["architecture"]] = one
    return list(found.values())


def of_both(wording):
    def cell(_, pair):
        cells = list(dict.fromkeys(wording(one) for one in pair.values()))
        return ", ".join(cells)

    return cell


def of_one(field):
    return lambda document, pair: field(pair["sm_90"])


COLUMNS = [
    Column("tail", **text(of_one(lambda one: one["tail"]))),
    Column("chain", **text(of_one(lambda one: f"`{one['chain']}`"))),
    Column("MB moved", of_both(lambda one: f"{one['moved_bytes'] / 1e6:.0f}")),
    Column("of the least", of_both(lambda one: f"{one['ratio']:.2f}")),
    Column(
        "instructions per element",
        of_both(lambda one: MISSING if one["instructions"] is None else f"{one['instructions']:.0f}"),
    ),
    Column("registers", of_both(lambda one: str(one["registers"]))),
    Column("spilled bytes", of_both(lambda one: str(one["spilled_bytes"]))),
    Column("blocks in flight", of_both(lambda one: f"{one['blocks_in_flight']} of {one['threads']} threads")),
]

TABLE = Table(head, lambda document: [(None, COLUMNS, pairs(document))])
