"""The table and the picture of what pointwise.py measured: columns, judgements and notes, for tables.py."""

import re

import markdown
import pointwise_cases
import sass
from markdown import MISSING, Column, Table, row, text

PEERS = {"compile": "torch.compile", "eager": "eager", "cupy": "CuPy", "by_hand": "by hand"}
EXPLAINED = 1.05  # times the largest of the limits: what is above it waits for something else


# ---- judging a record. Ratios are compared as they are printed: the third digit is noise.


def as_printed(ratio):
    return round(ratio, 2)


def target_of(record):
    ratio, seconds = record["target"]["ratio"], record["target"]["seconds"]
    if ratio is not None:
        return f"{ratio:.2f}"
    return f"+{seconds * 1e6:.0f} µs" if seconds is not None else MISSING


def misses_target(record):
    ratio, seconds = record["target"]["ratio"], record["target"]["seconds"]
    if ratio is not None:
        return as_printed(record["ratio"]["epifuse"]) > ratio
    return seconds is not None and record["seconds"]["epifuse"] - record["seconds"]["copy"] > seconds


def faster_peers(record):
    mine = as_printed(record["ratio"]["epifuse"])
    return [
        label for name, label in PEERS.items() if name in record["ratio"] and as_printed(record["ratio"][name]) < mine
    ]


def is_missed(record):
    return misses_target(record) or bool(faster_peers(record))


def limits(document, record):
    """Seconds that each resource needs: the memory bus (the copy), the schedulers, the special units."""
    found = {"bytes": record["seconds"]["copy"]}
    spent, settings = record["per_element"], document["settings"]
    if spent and settings["clock_hz"]:
        rate = settings["multiprocessors"] * settings["clock_hz"] / record["elements"]
        found["instructions"] = spent["instructions"] / (rate * sass.ISSUED_PER_CYCLE)
        found["special units"] = spent["special"] / (rate * sass.SPECIAL_PER_CYCLE)
    return found


def in_flight(record):
    found = re.search(r"(\d+ in flight per SM).*, bound by (\w+)", record["limited_by"])
    return f"{found[1]}, {found[2]}" if found else record["limited_by"]


def limit_of(document, record):
    """The resource that needs most time, and its part of the copy's where that is another; what bounds the blocks in
    flight where none of the resources explains the time."""
    if record["largest_bytes"] < pointwise_cases.MEDIUM:
        return "launch"
    found = limits(document, record)
    name = max(found, key=found.get)
    text = name if name == "bytes" else f"{name} {found[name] / found['bytes']:.2f}"
    explained = record["producer"] or record["seconds"]["epifuse"] <= EXPLAINED * found[name]
    return text if explained else f"{text}; {in_flight(record)}"


# ---- the table


def time_of(record, name):
    seconds = record.get("seconds", {}).get(name)
    return MISSING if seconds is None else f"{seconds * 1e6:.1f}" if seconds >= 1e-5 else f"{seconds * 1e6:.2f}"


def ratio_of(record, name):
    ratio = record.get("ratio", {}).get(name)
    return MISSING if ratio is None else f"{ratio:.2f}"


def epifuse_ratio(record):
    if "error" in record:
        return "**failed**"
    return f"**{ratio_of(record, 'epifuse')}**" if is_missed(record) else ratio_of(record, "epifuse")


def issued(record):
    return f"{record['per_element']['instructions']:.1f}" if record.get("per_element") else MISSING


def name_of(record):
    return record["case"] if record["case"] == record["text"] else f"{record['case']}: {record['text']}"


NAMED = [
    Column("case", **text(lambda d, r: f"`{r['text']}`" if name_of(r) == r["text"] else f"{r['case']}: `{r['text']}`")),
    Column("x", **text(lambda d, r: markdown.shape(r["operands"]["x"]["shape"]))),
    Column("type", **text(lambda d, r: r["dtype"])),
]
MEASURED = [Column("EpiFuse µs", lambda d, r: time_of(r, "epifuse")), Column("EpiFuse", lambda d, r: epifuse_ratio(r))]
COPY = Column("copy µs", lambda d, r: time_of(r, "copy"))
PYTORCH = [
    Column("torch.compile", lambda d, r: ratio_of(r, "compile")),
    Column("eager", lambda d, r: ratio_of(r, "eager")),
]
TAIL = [
    *NAMED,
    COPY,
    *MEASURED,
    Column("target", lambda d, r: target_of(r)),
    *PYTORCH,
    Column("CuPy", lambda d, r: ratio_of(r, "cupy")),
    Column("by hand", lambda d, r: ratio_of(r, "by_hand")),
    Column("instructions", lambda d, r: issued(r)),
    Column("limit", **text(lambda d, r: limit_of(d, r) if "ratio" in r else MISSING)),
]
PAIR = [*NAMED, Column("producer µs", lambda d, r: time_of(r, "producer")), COPY, *MEASURED, *PYTORCH]


def header(document):
    versions = document["versions"]
    cupy = f", CuPy {versions['cupy']}" if versions["cupy"] else ""
    return (
        f"{document['device']}, driver {document['driver']}, PyTorch {versions['torch']}, "
        f"Triton {versions['triton']}{cupy}; "
        f"EpiFuse {versions['epifuse']} at `{document['commit'][:12]}`, {document['date'][:10]}. "
        f"A copy of 2 GiB runs at {document['settings']['copy_gbps']:.0f} GB/s, read and written."
    )


CLASSES = [  # heading, whether a record is of it
    ("f32, 64 MB and more", lambda r: not r["view"] and r["target"]["ratio"] == pointwise_cases.F32_TARGET),
    (
        "16 and 8 bits, 64 MB and more",
        lambda r: not r["view"] and r["target"]["ratio"] == pointwise_cases.NARROW_TARGET,
    ),
    ("1 to 64 MB", lambda r: r["target"]["ratio"] == pointwise_cases.MEDIUM_TARGET),
    ("below 1 MB", lambda r: r["target"]["seconds"] is not None),
    ("views, of the traffic of their sectors", lambda r: r["view"]),
    ("producer + tail, of producer + copy", lambda r: r["producer"] is not None),
]


def summary(records):
    """Per class of targets: how many meet it, and the worst."""
    lines = [
        row(["class", "target", "cases", "target met", "no peer faster", "worst"]),
        row(["---", "---:", "---:", "---:", "---:", "---"]),
    ]
    for heading, is_of in CLASSES:
        own = [record for record in records if "ratio" in record and is_of(record)]
        if not own:
            continue
        worst = max(own, key=lambda record: record["ratio"]["epifuse"])
        has_target = target_of(own[0]) != MISSING
        lines.append(
            row(
                [
                    heading,
                    target_of(own[0]),
                    str(len(own)),
                    str(sum(not misses_target(record) for record in own)) if has_target else MISSING,
                    str(sum(not faster_peers(record) for record in own)),
                    f"{worst['ratio']['epifuse']:.2f}: {worst['case'].replace('|', chr(92) + '|')}, {worst['dtype']}",
                ]
            )
        )
    return lines


def misses(document):
    lines = []
    for record in document["records"]:
        if "ratio" in record and is_missed(record):
            peers = faster_peers(record)
            beside = f", slower than {' and '.join(peers)}" if peers else ""
            lines.append(
                f"{name_of(record)}, {record['dtype']}, {ratio_of(record, 'epifuse')} (target {target_of(record)})"
                f"{beside}: "
                f"{limit_of(document, record).partition(';')[0]}; {record['limited_by']}"
            )
    return lines


def failures(document):
    found = [
        f"{record['case']}, {record['dtype']}: {record['error']}" for record in document["records"] if "error" in record
    ]
    for record in document["records"]:
        found += [
            f"{record['case']}, {record['dtype']}, {PEERS[name]}: {text.splitlines()[0]}"
            for name, text in record.get("problems", {}).items()
        ]
    return found


def head(document, picture):
    return [
        f"![achieved bandwidth over instructions per byte, and over the size of the tensor]({picture})",
        "",
        header(document),
        "",
        *summary(document["records"]),
    ]


def groups(document):
    records = document["records"]
    for group in dict.fromkeys(record["group"] for record in records):
        own = [record for record in records if record["group"] == group]
        yield group, PAIR if own[0]["producer"] else TAIL, own


def notes(document):
    return [("Above their target, or slower than a peer:", misses(document)), ("Failed:", failures(document))]


PLACES = {(case.name, case.types): place for place, case in enumerate(pointwise_cases.ALL)}


def place_of(record):
    """In the order of the cases; what is none any more comes last."""
    return PLACES.get((record["case"], record["dtype"]), len(PLACES))


# ---- the picture

KINDS = [
    ("f32", "f32", "#2f6f4f"),
    ("16 bits", "f16 bf16 f32→f16", "#3b6fc9"),
    ("8 bits", "f8e4m3 i8 bf16→f8e4m3 i32→i8", "#8a4fa3"),
]
GREY = "#b0a08a"
LINES = [
    ("copy", "a copy", "black"),
    ("epifuse", "EpiFuse", "#2f6f4f"),
    ("compile", "torch.compile", "#c9843b"),
    ("eager", "eager", "#b04a4a"),
    ("cupy", "CuPy", "#3b6fc9"),
    ("by_hand", "by hand", "#8a8a8a"),
]


def draw_roofline(axes, document):
    """Instructions per byte against GB/s. The roofs: the copy, and what the schedulers issue."""
    shown = [
        record
        for record in document["records"]
        if record.get("gbps") and record["per_element"] and record["largest_bytes"] >= pointwise_cases.LARGE
    ]
    per_byte = {
        id(record): record["per_element"]["instructions"] * record["elements"] / record["traffic"] for record in shown
    }
    if not shown:
        return
    for name, label, marker in (("compile", "torch.compile", "x"), ("eager", "eager", "+")):
        own = [record for record in shown if name in record["gbps"]]
        axes.scatter(
            [per_byte[id(r)] for r in own],
            [r["gbps"][name] for r in own],
            s=16,
            marker=marker,
            linewidths=0.8,
            color=GREY,
            label=f"{label}, above EpiFuse's instructions",
        )
    for label, dtypes, colour in KINDS:
        own = [record for record in shown if record["dtype"] in dtypes.split()]
        axes.scatter(
            [per_byte[id(r)] for r in own],
            [r["gbps"]["epifuse"] for r in own],
            s=16,
            color=colour,
            label=f"EpiFuse, {label}",
        )
    low, high = min(per_byte.values()) / 1.5, max(per_byte.values()) * 1.5
    roof = max(record["gbps"]["copy"] for record in shown)
    axes.hlines(roof, low, high, color="black", linewidth=0.8, label="the fastest copy")
    settings = document["settings"]
    if settings["clock_hz"]:
        issue = (
            settings["multiprocessors"] * sass.ISSUED_PER_CYCLE * settings["clock_hz"] * 1e-9
        )  # thread instructions per ns
        axes.plot(
            [low, high],
            [issue / low, issue / high],
            color="black",
            linewidth=0.8,
            linestyle="--",
            label="all issue slots at the highest clock",
        )
    slowest = min(value for record in shown for value in record["gbps"].values())
    axes.set_yscale("log")
    axes.set_ylim(slowest / 2, roof * 1.5)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_xlabel("instructions of EpiFuse's kernel per byte moved", fontsize=7)
    axes.set_title("tensors of 64 MB and more", fontsize=9)


def draw_sizes(axes, document, dtype):
    own = sorted(
        (
            record
            for record in document["records"]
            if record["group"] == "sizes" and record["dtype"] == dtype and record.get("gbps")
        ),
        key=lambda record: record["traffic"],
    )
    for name, label, colour in LINES:
        points = [(record["traffic"], record["gbps"][name]) for record in own if name in record["gbps"]]
        if points:
            axes.plot(*zip(*points), color=colour, linewidth=1.2, marker=".", markersize=4, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("bytes read and written", fontsize=7)
    axes.set_title(f"relu(x + bias), {dtype}", fontsize=9)


def plot(document, path):
    figure, panels = markdown.pyplot().subplots(1, 3, layout="constrained", figsize=(13, 4.2))
    draw_roofline(panels[0], document)
    for axes, dtype in zip(panels[1:], ("f32", "f16")):
        draw_sizes(axes, document, dtype)
    for axes in panels:
        axes.set_ylabel("GB/s, read and written", fontsize=7)
        axes.tick_params(which="both", labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(
                fontsize=6, edgecolor="none", framealpha=0.8, loc="lower left" if axes is panels[0] else "upper left"
            )
    figure.suptitle(f"{document['device']}, EpiFuse at {document['commit'][:12]}", fontsize=9)
    markdown.save(figure, path)


TABLE = Table(head, groups, notes, plot, place_of)
