"""The tables of whole models, for tables.py: the examples (a library's call and its tail), the tutorial's five models,
and KernelBench's problems."""

import statistics

import markdown
from markdown import MISSING, Column, Table, text

# ---- the examples of examples/

EXAMPLE_COLUMNS = [
    Column("example", **text(lambda d, r: r["example"].replace("_", " "))),
    Column("type", **text(lambda d, r: r["dtype"])),
    Column("layout", **text(lambda d, r: r["layout"])),
    Column("producer ms", lambda d, r: f"{r['producer_ms']:.3f}"),
    Column("tail ms", lambda d, r: f"{r['tail_ms']:.4f}"),
    Column("copy ms", lambda d, r: f"{r['copy_ms']:.4f}"),
    Column("tail / copy", lambda d, r: f"{r['ratio']:.2f}"),
    Column("both ms", lambda d, r: f"{r['pair_ms']:.3f}"),
    Column("one launch ms", lambda d, r: f"{r['together_ms']:.3f}" if r.get("together_ms") else MISSING),
    Column("tail GB/s", lambda d, r: f"{r['gbps']:.0f}"),
    Column("max error", lambda d, r: f"{r['max_error']:.1e}"),
    Column("samples", lambda d, r: str(r["samples"])),
    Column("verified", **text(lambda d, r: "yes" if r["verified"] else "**NO**")),
]


def example_head(document, _):
    versions = document["versions"]
    libraries = ", ".join(sorted({record["library"] for record in document["records"]}))
    return [
        f"{document['device']}, driver {document['driver']}, CUDA runtime {versions['cuda_runtime']}, {libraries}; "
        f"EpiFuse {versions['epifuse']} at `{document['commit'][:12]}`, {document['date'][:10]}."
    ]


CONSUMER_COLUMNS = [
    Column("product behind ms", lambda d, r: f"{r['consumer_ms']:.3f}" if r.get("consumer_ms") else MISSING),
    Column("all three ms", lambda d, r: f"{r['all_ms']:.3f}" if r.get("all_ms") else MISSING),
]


def example_columns(records):
    """With those of the product behind the tail where a record has one."""
    if not any(record.get("consumer") for record in records):
        return EXAMPLE_COLUMNS
    place = [column.heading for column in EXAMPLE_COLUMNS].index("tail GB/s")
    return [*EXAMPLE_COLUMNS[:place], *CONSUMER_COLUMNS, *EXAMPLE_COLUMNS[place:]]


def by_number(records):
    return sorted(records, key=lambda record: int(record["example"].partition("_")[0]))


EXAMPLES = Table(
    example_head, lambda document: [(None, example_columns(document["records"]), by_number(document["records"]))]
)

# ---- the five models of python/examples/tutorial.py

TYPES = {"float32": "f32", "float16": "f16"}
TIMES = ("eager", "one line", "backend", "tail, eager", "tail", "copy")
TUTORIAL_COLUMNS = [
    Column("model", **text(lambda d, r: r["model"])),
    Column("type", **text(lambda d, r: TYPES[r["dtype"]])),
    *(Column(name, lambda d, r, name=name: f"{r[name]:.3f}") for name in TIMES),
    Column("backend over eager", lambda d, r: f"{r['eager'] / r['backend']:.2f}"),
    Column("tail over copy", lambda d, r: f"{r['tail'] / r['copy']:.2f}"),
]
BARS = (
    ("eager", "eager", "#8a8a8a"),
    ("one line", "tail in one line", "#7fb08f"),
    ("backend", 'backend="epifuse"', "#2f6f4f"),
)
BAR_HEIGHT = 0.26


def tutorial_machine(document):
    return f"{document['device']}, PyTorch {document['versions']['torch']}"


def tutorial_plot(document, path):
    dtypes = list(dict.fromkeys(record["dtype"] for record in document["records"]))
    figure, panels = markdown.pyplot().subplots(
        1, len(dtypes), sharey=True, squeeze=False, layout="constrained", figsize=(8, 3)
    )
    for axes, dtype in zip(panels[0], dtypes):
        records = [record for record in document["records"] if record["dtype"] == dtype]
        for k, (name, label, colour) in enumerate(BARS):
            at = [i + (k - 1) * BAR_HEIGHT for i in range(len(records))]
            axes.barh(at, [record[name] for record in records], BAR_HEIGHT, color=colour, label=label)
        markdown.bars(axes, [record["model"] for record in records], TYPES[dtype], "ms, the whole model")
    markdown.save_bars(figure, panels[0], tutorial_machine(document), path)


TUTORIAL = Table(
    lambda document, _: [
        f"{document['device']}, {markdown.driver(document)}, PyTorch {document['versions']['torch']}; "
        f"EpiFuse at `{document['commit'][:12]}`. Milliseconds."
    ],
    lambda document: [(None, TUTORIAL_COLUMNS, document["records"])],
    plot=tutorial_plot,
)

# ---- KernelBench

CONTESTANTS = ("eager", "compile", "epifuse")  # of the table
FASTER = 0.99  # times ours: a time that is less than this is bold
SLOWER = 1.01  # times torch.compile's: what takes longer than this is named


def milliseconds(record, one):
    return f"{record[f'{one}_ms']:.3f}" if f"{one}_ms" in record else "failed" if f"{one}_error" in record else MISSING


def speed_over(record, peer):
    mine, theirs = record.get("epifuse_ms"), record.get(f"{peer}_ms")
    if not mine or not theirs:
        return MISSING
    return f"**{theirs / mine:.2f}**" if theirs < mine * FASTER else f"{theirs / mine:.2f}"


def kernels(record):
    return ", ".join(
        MISSING if record.get(f"{one}_kernels") is None else str(record[f"{one}_kernels"]) for one in CONTESTANTS
    )


def fused(record):
    names = "; ".join(" ".join(names) for names in record.get("fused", []))
    return names or record.get("fallback") or record.get("epifuse_error", "nothing")[:80]


def off(record):
    difference = record.get("epifuse_difference")
    return (MISSING if difference is None else f"{difference:.1e}") + ("" if record["right"] else " wrong")


KERNELBENCH_COLUMNS = [
    Column("problem", **text(lambda d, r: r["problem"])),
    Column("type", **text(lambda d, r: r["dtype"])),
    *(
        Column(f"{label} ms", lambda d, r, one=one: milliseconds(r, one))
        for one, label in zip(CONTESTANTS, ("eager", "compile", "EpiFuse"))
    ),
    Column("over eager", lambda d, r: speed_over(r, "eager")),
    Column("over compile", lambda d, r: speed_over(r, "compile")),
    Column("kernels: eager, compile, EpiFuse", **text(lambda d, r: kernels(r))),
    Column("fused", **text(lambda d, r: fused(r))),
    Column("difference", lambda d, r: off(r)),
]


def kernelbench_head(document, _):
    versions = document["versions"]
    return [
        f"device {document['device']}, {markdown.driver(document)}, "
        f"models in {document['settings'].get('mode', 'eval')} mode, torch {versions['torch']}, epifuse {versions['epifuse']}, "
        f"commit {document['commit']}, "
        f"date {document['date'][:10]}"
    ]


def speeds(records):
    """Geometric means, and how many are no slower than torch.compile."""
    for dtype in dict.fromkeys(record["dtype"] for record in records):
        both = [
            record
            for record in records
            if record["dtype"] == dtype and "epifuse_ms" in record and "compile_ms" in record
        ]
        if both:
            eager, compiled = (
                statistics.geometric_mean(record[f"{one}_ms"] / record["epifuse_ms"] for record in both)
                for one in ("eager", "compile")
            )
            slower = [record["problem"] for record in both if record["epifuse_ms"] > record["compile_ms"] * SLOWER]
            yield (
                f"{dtype}: {eager:.2f} times eager's speed and {compiled:.2f} times torch.compile's "
                f"(geometric means of {len(both)}); "
                f"slower than torch.compile by more than 1 %: {', '.join(slower) or 'none'}"
            )


def kernelbench_notes(document):
    records, skipped = document["records"], document["settings"]["skipped"]
    wrong = [
        f"{record['problem']} {record['dtype']} ({', '.join(record.get('wrong', ())) or 'failed'})"
        for record in records
        if record.get("wrong") or not record["right"]
    ]
    notes = [*speeds(records), f"results beyond the tolerance: {', '.join(wrong) or 'none'}"]
    return [(None, notes + ([f"not run, the time was over: {', '.join(skipped)}"] if skipped else []))]


KERNELBENCH = Table(
    kernelbench_head, lambda document: [(None, KERNELBENCH_COLUMNS, document["records"])], kernelbench_notes
)
