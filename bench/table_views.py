"""The tables of what chains with views cost, for tables.py: tails of KernelBench level 2, loops beside kernels written by hand, and the oracle's counts."""

import re

from markdown import MISSING, Column, Table, driver, text

REASONS = {
    "more than 8 different dimensions": "more than 8 dimensions",
    "no value has all of its dimensions": "a reduction before windows of its result",
    "over many rows together with values of single rows": "a statistic over rows of several kernels' statistics",
    "more than a cluster of blocks": "segments that no cluster holds",
    "element by element, which beside reductions": "a maximum over what norms give",
    "there is a reduction before it": "windows of what a norm gives",
}


def of_kind(document, kind):
    return [one for one in document["records"] if one["kind"] == kind]


def pairs(document):
    """The records of f32, each with that of f16 beside it."""
    found = {}
    for one in of_kind(document, "tail"):
        found.setdefault((one["number"], one["operands"], str([c["chain"] for c in one["chains"]])), {})[one["dtype"]] = one
    return list(found.values())


def of_both(cell):
    def wording(_, pair):
        cells = list(dict.fromkeys(cell(pair[dtype]) for dtype in ("f32", "f16")))
        return ", ".join(cells)

    return wording


def why(one):
    refused = next((chain["refused"] for chain in one["chains"] if chain["refused"]), None)
    if refused is None:
        return str(one["kernels"])
    return "no: " + next((short for words, short in REASONS.items() if words in refused), refused.partition(":")[0])


TAILS = [
    Column("problem", lambda d, pair: str(pair["f32"]["number"])),
    Column("chain", **text(lambda d, pair: "; ".join(f"`{one['chain']}`" for one in pair["f32"]["chains"]))),
    Column("least kernels", lambda d, pair: str(pair["f32"]["expected_kernels"])),
    Column("kernels, f32, f16", **text(of_both(why))),
    Column("MB moved, f32", lambda d, pair: f"{pair['f32']['moved_bytes'] / 1e6:.0f}" if pair["f32"]["kernels"] else MISSING),
    Column("of the least", of_both(lambda one: f"{one['ratio']:.2f}" if one["kernels"] else MISSING)),
]

LOOPS = [
    Column("chain, f16, sm_90", **text(lambda d, one: f"`{one['chain']}`")),
    Column("schedule", **text(lambda d, one: one["schedule"] or MISSING)),
    Column("instructions per element", lambda d, one: f"{one['instructions']:.1f}" if one["instructions"] else MISSING),
    Column("by hand", lambda d, one: f"{one['by_hand']:.1f}" if one["by_hand"] else MISSING),
    Column("ratio", lambda d, one: f"{one['ratio']:.2f}" if one["ratio"] else MISSING),
    Column("widest load, bytes", lambda d, one: str(one["widest_load"]) if one["widest_load"] is not None else MISSING),
]


def oracle(document):
    found = of_kind(document, "oracle")
    if not found or not found[0]["cases"]:
        return "The oracle's report is missing."
    one = found[0]
    agreed = sum(count for name, count in one["outcomes"].items() if not name.startswith("refused"))
    gradients = one["outcomes"].get("gradient", 0)
    refused = sum(count for name, count in one["outcomes"].items() if re.match("(gradient )?refused", name))
    return (
        f"PyTorch {one['torch'].partition('+')[0]} as oracle on the CPU device, seed {one['seed']}, at `{one['commit'][:12]}`: {one['cases']} cases. "
        f"{agreed} results agree, and {gradients} of them with their gradients; {refused} were refused, or their gradients; {len(one['failures'])} operations differ."
    )


def head(document, _):
    tails = of_kind(document, "tail")
    planned = [one for one in tails if one["kernels"]]
    within = sum(one["ratio"] <= 1.05 for one in planned)
    return [
        f"Device: {document['device']}, {driver(document)}, EpiFuse at `{document['commit'][:12]}`, {document['date'][:10]}. Of {len(tails)} tails, each in f32 and f16, "
        f"{len(planned)} are the least number of kernels, and {within} of these move at most 1.05 of every operand and every result once.",
        "",
        oracle(document),
    ]


TABLE = Table(
    head,
    lambda document: [
        ("Tails of KernelBench level 2, odd numbers", TAILS, pairs(document)),
        ("Loops beside kernels written by hand", LOOPS, of_kind(document, "loop")),
    ],
)
