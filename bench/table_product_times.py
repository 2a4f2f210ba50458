"""The table of what plans estimate of products beside the times that they took, for tables.py: one line per product and chain."""

import statistics

from markdown import Column, Table, driver, text


def error(one):
    """The engine's way: its estimate over its time."""
    estimated = one["estimated_us"]
    return estimated["one_kernel" if estimated["is_one_kernel"] else "apart"] / one["measured_us"]["engine"]


def head(document, _):
    errors = [error(one) for one in document["records"]]
    settings = document["settings"]
    return [
        f"Device: {document['device']}, {driver(document)}, EpiFuse at `{document['commit'][:12]}`, {document['date'][:10]}. Times are those of "
        f"`{settings['measured']}`, at `{settings['measured_at'][:12]}`. The plan's estimate of the way that it takes is {min(errors):.2f} to "
        f"{max(errors):.2f} of the time measured, {statistics.median(errors):.2f} in the median of {len(errors)}."
    ]


def estimated(name, decimals=0):
    def cell(_, one):
        value = one["estimated_us"].get(name)
        return "–" if value is None else f"{value:.{decimals}f}"

    return cell


def measured(name):
    def cell(_, one):
        value = one["measured_us"][name]
        return "–" if value is None else f"{value:.1f}"

    return cell


COLUMNS = [
    Column("product and chain", **text(lambda _, one: one["case"])),
    Column("type", **text(lambda _, one: one["dtype"])),
    Column("waves", estimated("waves", 2)),
    Column("products, µs", estimated("products")),
    Column("chain, µs", estimated("chain")),
    Column("memory, µs", estimated("memory")),
    Column("L2 cache, MB", estimated("l2_megabytes")),
    Column("one kernel, µs", estimated("one_kernel")),
    Column("apart, µs", estimated("apart")),
    Column("cuBLASLt's product, measured", measured("best")),
    Column("the plan's way, measured", measured("engine")),
    Column("apart, measured", measured("apart")),
    Column("estimate over measured", lambda _, one: f"{error(one):.2f}"),
]

TABLE = Table(head, lambda document: [(None, COLUMNS, document["records"])])
