"""The tables of bench/gradients.py, bench/view_operands.py, bench/quantise.py, bench/products.py and bench/convolutions.py, for tables.py."""

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
QUANTISE = table()


# ---- matrix products and convolutions


def beside_product(product, library, case, column, beside):
    """The table of chains that their product's kernel hosts. `product` and `library` say what times are multiples of; `case` and `column` are the headings
    of a row's first cell and of the bare product's time; `beside`: contestant -> heading."""

    def head(document, _):
        records = [record for record in document["records"] if "error" not in record]
        hosted = [record for record in records if "pair" in record["ratio"]]
        faster = sum(record["ratio"]["epifuse"] < record["ratio"]["pair"] for record in hosted)
        within = sum(record["ratio"]["epifuse"] <= record["target"] for record in records)
        return [
            f"Device: {document['device']}, {driver(document)}, PyTorch {document['versions']['torch']}. At `{document['commit'][:12]}`, {document['date'][:10]}.",
            f"Times in multiples of the bare {product}, as PyTorch gets it from {library}. "
            f"One kernel takes at most {records[0]['target']:.2f} of it in {within} of {len(records)} cases, and less than the {product} and then the chain in {faster} of {len(hosted)}.",
        ]

    def groups(document):
        columns = [
            Column(case, **text(lambda d, r: r["case"])),
            Column("type", **text(lambda d, r: r["dtype"])),
            Column(column, lambda d, r: f"{r['seconds']['product'] * 1e3:.4f}"),
            Column("TFLOP/s", lambda d, r: f"{r['flops'] / r['seconds']['product'] / 1e12:.0f}"),
            *[Column(heading, ratio(name)) for name, heading in beside.items()],
        ]
        return [(None, columns, [record for record in document["records"] if "error" not in record])]

    def notes(document):
        failed = [f"{r['case']}, {r['dtype']}: {r['error']}" for r in document["records"] if "error" in r]
        return [("Not timed:", failed)]

    return Table(head, groups, notes)


PRODUCTS = beside_product(
    "product",
    "cuBLASLt",
    "product and chain",
    "product, ms",
    {
        "best": "cuBLASLt, best of its heuristics",
        "epifuse": "one kernel",
        "pair": "product, then chain",
        "library": "cuBLASLt's epilogue",
        "compile": "torch.compile",
        "autotune": "max-autotune",
        "eager": "eager",
    },
)
CONVOLUTIONS = beside_product(
    "convolution",
    "cuDNN, channels-last, by the fastest algorithm that its `benchmark` mode finds",
    "images, filters, chain",
    "cuDNN, ms",
    {
        "epifuse": "one kernel",
        "pair": "cuDNN, then chain",
        "library": "cuDNN's epilogue",
        "compile": "torch.compile",
        "eager": "eager",
    },
)
