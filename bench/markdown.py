"""Tables in the documents, for the scripts of this folder that write them."""
import argparse
import json
import pathlib
import sys

MISSING = "–"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def with_table(text, writer, table):
    """The document with the table between the lines that name `writer`, such as examples_table.py."""
    begin, end = f"<!-- table: written by bench/{writer} -->", "<!-- end of table -->"
    head, found_begin, rest = text.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found_begin or not found_end:
        raise SystemExit(f"{writer}: no place for the table; expected the lines {begin} and {end}")
    return f"{head}{begin}\n{table}\n{end}{tail}"


def shape(extents):
    return "×".join(map(str, extents))


# ---- scripts that make a table and a picture of one JSON document


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def commands(description):
    """print DOCUMENT, update DOCUMENT PAGE, plot DOCUMENT PICTURE; the caller may add its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    added = parser.add_subparsers(dest="command", required=True)
    for name, target in (("print", None), ("update", "page"), ("plot", "picture")):
        command = added.add_parser(name)
        command.add_argument("document", type=pathlib.Path)
        if target:
            command.add_argument(target, type=pathlib.Path)
    return parser, added


def carry_out(options, writer, table, plot):
    document = read(options.document)
    if options.command == "plot":
        plot(document, options.picture)
    elif options.command == "update":
        text = with_table(options.page.read_text(encoding="utf-8"), writer, table(document))
        options.page.write_text(text, encoding="utf-8")
    else:
        sys.stdout.buffer.write((table(document) + "\n").encode())


def pyplot():
    """matplotlib, set so that the same numbers give the same file."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as module
    matplotlib.rcParams["svg.hashsalt"] = "epifuse"
    return module


def bars(axes, names, title, label):
    """The look of a panel of horizontal bars: a row for each name, the first above."""
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(label, fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def save_bars(figure, panels, title, path):
    """With one legend below for all panels, which hold the same bars."""
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, loc="outside lower center", ncols=len(labels))
    figure.suptitle(title, fontsize=9)
    save(figure, path)


def save(figure, path):
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
