"""The table of what backward kernels move, for tables.py: one line per chain and list of gradients."""

import re

from markdown import Column, Table, driver, text

REASONS = {
    "reduces other dimensions": "no: rows and columns",
    "a chain of their own": "no: rows and columns",
    "are combined along": "no: rows of two kinds",
}


# As bench/gradient_bytes.py spells it.
BATCH_NORM = re.compile(r"u = (?P<value>[^;]*); m = mean[^;]*; v = var[^;]*; n = [^;]*; (?P<then>.*)")


def shown(chain):
    """The chain, with the statements of a batch norm as one call."""
    found = BATCH_NORM.fullmatch(chain)
    return re.sub(r"\bn\b", f"batch_norm({found['value']}, w, b)", found["then"]) if found else chain


def by_type(document):
    """The records of f32, each with that of bf16 beside it."""
    found = {}
    for one in document["records"]:
        found.setdefault((one["chain"], one["operands"], one["wrt"]), {})[one["dtype"]] = one
    return list(found.values())


def kernel(pair):
    refused = pair["f32"]["refused"]
    if not refused:
        return pair["f32"]["schedule"]
    return next((short for words, short in REASONS.items() if words in refused), "no")


def of_both(cell):
    """A cell of each type: what differs stands beside it."""

    def wording(_, pair):
        if pair["f32"]["refused"]:
            return ""
        cells = [cell(pair[dtype]) for dtype in ("f32", "bf16")]
        return cells[0] if cells[0] == cells[1] else ", ".join(cells)

    return wording


COLUMNS = [
    Column("chain", **text(lambda d, r: f"`{shown(r['f32']['chain'])}`")),
    Column("gradients of", **text(lambda d, r: r["f32"]["wrt"].replace(",", ", "))),
    Column("backward reads", **text(of_both(lambda one: ", ".join(one["reads"])))),
    Column("MB moved, f32", lambda d, r: "" if r["f32"]["refused"] else f"{r['f32']['moved_bytes'] / 1e6:.0f}"),
    Column("of the least", of_both(lambda one: f"{one['ratio']:.2f}")),
    Column("one kernel", **text(lambda d, r: kernel(r))),
]


def head(document, _):
    planned = [one for one in document["records"] if not one["refused"]]
    within = sum(one["ratio"] <= 1.05 for one in planned)
    again = sum(one["read_again_bytes"] > 0 for one in planned)
    return [
        f"Device: {document['device']}, {driver(document)}, EpiFuse at `{document['commit'][:12]}`, {document['date'][:10]}, in f32 and bf16. "
        f"Of {len(document['records'])} backward passes {len(planned)} are one kernel. {within} of them move at most 1.05 of the least bytes: "
        f"each operand that they read once, and each gradient once. A workspace counts as written and read. {again} read rows again that no blocks hold."
    ]


def groups(document):
    pairs = by_type(document)
    guide = [pair for pair in pairs if pair["f32"]["group"] == "guide"]
    tails = [pair for pair in pairs if pair["f32"]["group"] != "guide"]
    return [
        ("Rows of 4096 elements, images of 32×64×56×56", COLUMNS, guide),
        ("Tails of KernelBench level 2, odd numbers", COLUMNS, tails),
    ]


TABLE = Table(head, groups)
