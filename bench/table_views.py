"""The table of instructions per element of kernels that read through views, beside those by hand, for tables.py: one line per kernel by hand."""

from markdown import Column, Table, driver, shape, text


def head(document, _):
    settings, records = document["settings"], document["records"]
    within = sum(one["ratio"] <= settings["target"] for one in records)
    return [
        f"Device: {document['device']}, {driver(document)}, sm_{settings['architecture']}, NVRTC {document['versions']['nvrtc']}, EpiFuse at "
        f"`{document['commit'][:12]}`, {document['date'][:10]}. Of {len(records)} ratios {within} are at most {settings['target']}. Cells with a "
        "slash are EpiFuse / by hand."
    ]


def both(wording):
    return lambda _, one: " / ".join(wording(one[side]) for side in ("epifuse", "hand"))


def of_kind(kind):
    return both(lambda counts: f"{counts['kinds'][kind]:.1f}")


def operands(one):
    given = (f"{name} {dtype} {shape(extents)}" for name, (dtype, extents) in one["operands"].items())
    return ", ".join(given)


COLUMNS = [
    Column("chain", **text(lambda _, one: f"`{one['chain']}`")),
    Column("operands", **text(lambda _, one: operands(one))),
    Column("by hand", **text(lambda _, one: f"`{one['by_hand']}`")),
    Column("instructions per element", both(lambda counts: f"{counts['instructions']:.1f}")),
    Column("ratio", lambda _, one: f"{one['ratio']:.2f}"),
    Column("ratio, not contracted", lambda _, one: f"{one['ratio_not_contracted']:.2f}"),
    Column("index", of_kind("index")),
    Column("memory", of_kind("memory")),
    Column("conversions", of_kind("conversions")),
    Column("arithmetic", of_kind("arithmetic")),
    Column("bytes per access", both(lambda counts: ", ".join(map(str, counts["bytes_per_access"])))),
    Column("elements of a thread", both(lambda counts: str(counts["results"]))),
    Column("registers", both(lambda counts: str(counts["registers"]))),
]

TABLE = Table(head, lambda document: [(None, COLUMNS, document["records"])])
