#!/usr/bin/env python3
"""The table and the picture of what python/examples/tutorial.py measured.

    tutorial_table.py print  DOCUMENT.json
    tutorial_table.py update DOCUMENT.json docs/measurements/python.md
    tutorial_table.py plot   DOCUMENT.json docs/images/tutorial-h100.svg      (or .png; needs matplotlib)
"""
import markdown
from markdown import row

TYPES = {"float32": "f32", "float16": "f16"}
TIMES = ("eager", "one line", "backend", "tail, eager", "tail", "copy")
BARS = (("eager", "eager", "#8a8a8a"), ("one line", "tail in one line", "#7fb08f"), ("backend", 'backend="epifuse"', "#2f6f4f"))
BAR_HEIGHT = 0.26


def table(document):
    lines = [f"{document['device']}, PyTorch {document['torch']}. Milliseconds.", "",
             row(["model", "type", *TIMES, "backend over eager", "tail over copy"]),
             row(["---", "---"] + ["---:"] * (len(TIMES) + 2))]
    for record in document["rows"]:
        lines.append(row([record["model"], TYPES[record["dtype"]], *(f"{record[name]:.3f}" for name in TIMES),
                          f"{record['eager'] / record['backend']:.2f}", f"{record['tail'] / record['copy']:.2f}"]))
    return "\n".join(lines)


def plot(document, path):
    dtypes = list(dict.fromkeys(record["dtype"] for record in document["rows"]))
    figure, panels = markdown.pyplot().subplots(1, len(dtypes), sharey=True, squeeze=False, layout="constrained", figsize=(8, 3))
    for axes, dtype in zip(panels[0], dtypes):
        records = [record for record in document["rows"] if record["dtype"] == dtype]
        for k, (name, label, colour) in enumerate(BARS):
            at = [i + (k - 1) * BAR_HEIGHT for i in range(len(records))]
            axes.barh(at, [record[name] for record in records], BAR_HEIGHT, color=colour, label=label)
        markdown.bars(axes, [record["model"] for record in records], TYPES[dtype], "ms, the whole model")
    markdown.save_bars(figure, panels[0], f"{document['device']}, PyTorch {document['torch']}", path)


def main():
    parser, _ = markdown.commands(__doc__)
    markdown.carry_out(parser.parse_args(), "tutorial_table.py", table, plot)


if __name__ == "__main__":
    main()
