"""The table and the picture of what reductions.py measured: columns, judgements and notes, for tables.py."""

import math

import markdown
import plans
from markdown import MISSING, Column, Table, text

LIMITS = {"copy": "", "read": " (read)", "twice": " (1.5 copies)"}


def shape_of(record):
    return markdown.shape(record["inputs"]["x"]["shape"])


def time_of(record, name):
    return f"{record['seconds'][name] * 1e6:.1f}" if name in record.get("seconds", {}) else MISSING


def ratio_of(record, name):
    ratio = record.get("ratio", {}).get(name)
    return MISSING if ratio is None else f"{ratio:.2f}"


def is_missed(record):
    """Above issue 3's bound, or slower than torch.compile."""
    ratio = record["ratio"]
    return ratio["epifuse"] > record["target"] or ratio["epifuse"] > ratio.get("compile", math.inf)


def epifuse_ratio(record):
    if "error" in record:
        return "**failed**"
    ratio = f"{record['ratio']['epifuse']:.2f}"
    return f"**{ratio}**" if is_missed(record) else ratio


def schedule_of(record):
    return plans.TODAY.get(record["plan"]["schedule"], record["plan"]["schedule"]) if "plan" in record else MISSING


def mark_of(record):
    """A record that another run at another commit gave says so itself."""
    return " †" if "commit" in record else ""


COLUMNS = [
    Column("case", **text(lambda d, r: f"{r['case']}{mark_of(r)}: `{r['text']}`")),
    Column("x", **text(lambda d, r: shape_of(r))),
    Column("type", **text(lambda d, r: r["dtype"])),
    Column("copy µs", lambda d, r: time_of(r, "copy") + LIMITS[r["limit"]]),
    Column("EpiFuse µs", lambda d, r: time_of(r, "epifuse")),
    Column("EpiFuse", lambda d, r: epifuse_ratio(r)),
    Column("torch.compile", lambda d, r: ratio_of(r, "compile")),
    Column("eager", lambda d, r: ratio_of(r, "eager")),
    Column("GB/s", lambda d, r: f"{r['gbps']['epifuse']:.0f}" if "gbps" in r else MISSING),
    Column("schedule", **text(lambda d, r: schedule_of(r))),
]


def header(document):
    return (
        f"{document['device']}, driver {document['driver']}, PyTorch {document['versions']['torch']}, "
        f"Triton {document['versions']['triton']}; EpiFuse {document['versions']['epifuse']} at "
        f"`{document['commit'][:12]}`, {document['date'][:10]}. "
        f"A copy of 2 GiB runs at {document['settings']['copy_gbps']:.0f} GB/s, read and written."
    )


EXPLANATION = (
    "The ratios are times over the limit: a copy of the same bytes (half of them each way) in the same run; where only "
    "reduced results are written (*read*), the copy's time for as many bytes as are read; where a row fits nowhere, "
    "1.5 copies: two reads and a write. Bold: above the bound of this kind of case, or slower than torch.compile."
)


def earlier_runs(document):
    runs = dict.fromkeys(
        (record["commit"][:12], record["date"][:10]) for record in document["records"] if "commit" in record
    )
    named = "; ".join(f"`{commit}`, {date}" for commit, date in runs)
    return [f"† of another run, at {named}."] if runs else []


def published(document):
    lines = []
    for record in document["records"]:
        for name, rate in (record["published"] or {}).items():
            if "gbps" in record:
                lines.append(
                    f"{record['case']}, {record['dtype']}: {record['gbps']['epifuse'] * 1e-3:.2f} TB/s; "
                    f"{name}'s published figure is {rate * 1e-12:.2f} TB/s on an H100."
                )
    return lines


def misses(document):
    """Why each one above its bound is there: what its plan says."""
    return [
        f"{record['case']}, {record['dtype']}, {record['ratio']['epifuse']:.2f}: {record['limited_by']}"
        for record in document["records"]
        if "ratio" in record and is_missed(record)
    ]


def problems(document):
    return [
        f"{record['case']}, {record['dtype']}: {record['error']}" for record in document["records"] if "error" in record
    ]


def head(document, _):
    return [" ".join([header(document), *earlier_runs(document)]), "", EXPLANATION]


def groups(document):
    records = document["records"]
    return [
        (group, COLUMNS, [record for record in records if record["group"] == group])
        for group in dict.fromkeys(record["group"] for record in records)
    ]


def notes(document):
    return [(None, published(document)), (None, misses(document)), (None, problems(document))]


# ---- the picture

CLIPPED = 4.0  # times the limit: longer bars are cut, and say how long they are
BARS = [("epifuse", "EpiFuse", "#2f6f4f"), ("compile", "torch.compile", "#c9843b")]
BAR_HEIGHT = 0.38
INCHES_PER_CASE = 0.3


def draw_panel(axes, records, dtype):
    ours = {record["case"]: record for record in records if record["dtype"] == dtype and "ratio" in record}
    names = list(dict.fromkeys(record["case"] for record in records))
    for k, (name, label, colour) in enumerate(BARS):
        ratios = [ours.get(case, {}).get("ratio", {}).get(name) for case in names]
        at = [i + (k - 0.5) * BAR_HEIGHT for i in range(len(names))]
        axes.barh(at, [min(ratio or 0, CLIPPED) for ratio in ratios], BAR_HEIGHT, color=colour, label=label)
        for y, ratio in zip(at, ratios):
            if ratio and ratio > CLIPPED:
                axes.text(CLIPPED, y, f"{ratio:.1f} ", va="center", ha="right", fontsize=6, color="white")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlim(0, CLIPPED)
    marked = {record["case"] for record in records if mark_of(record)}
    labels = [f"{name} †" if name in marked else name for name in names]
    markdown.bars(axes, labels, dtype, "time / limit; 1 is a copy of the same bytes")


def plot(document, path):
    records = document["records"]
    dtypes = list(dict.fromkeys(record["dtype"] for record in records))
    cases = len({record["case"] for record in records})
    figure, panels = markdown.pyplot().subplots(
        1,
        len(dtypes),
        sharey=True,
        squeeze=False,
        layout="constrained",
        figsize=(3 + 2.6 * len(dtypes), 1.2 + INCHES_PER_CASE * cases),
    )
    for axes, dtype in zip(panels[0], dtypes):
        draw_panel(axes, records, dtype)
    title = [f"{document['device']}, EpiFuse at {document['commit'][:12]}", *earlier_runs(document)]
    markdown.save_bars(figure, panels[0], ", ".join(title).replace("`", ""), path)


TABLE = Table(head, groups, notes, plot)
