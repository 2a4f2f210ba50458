"""Tables and pictures of records: what a table is made of (Table), its text, and its place in a page. For tables.py and
the modules table_*.py."""

import dataclasses
import typing

MISSING = "–"
END = "<!-- end of table -->"


@dataclasses.dataclass(frozen=True)
class Column:
    heading: str
    cell: typing.Callable  # (document, record) -> text
    alignment: str = "---:"


@dataclasses.dataclass(frozen=True)
class Table:
    """How the records of one suite are read: a head, groups of records with their columns, notes, and a picture."""

    head: typing.Callable  # (document, the picture's address in the page) -> lines
    groups: typing.Callable  # document -> [(heading or None, columns, records)]
    notes: typing.Callable = lambda document: []  # document -> [(heading or None, lines)]
    plot: typing.Callable | None = None  # (document, path): needs matplotlib
    order: typing.Callable | None = None  # record -> its place among the parts of a run


def text(wording, alignment="---"):
    """A column's cell and alignment, for one that holds words."""
    return {"cell": wording, "alignment": alignment}


def row(cells):
    return "| " + " | ".join(cells) + " |"


def cells(columns, document, record):
    return row(column.cell(document, record).replace("|", "\\|") for column in columns)


def rows(columns, document, records):
    return [
        row(column.heading for column in columns),
        row(column.alignment for column in columns),
        *(cells(columns, document, record) for record in records),
    ]


def written(table, document, picture=""):
    """The whole text of a table."""
    lines = table.head(document, picture)
    for heading, columns, records in table.groups(document):
        lines += ["", *([f"**{heading}**", ""] if heading else []), *rows(columns, document, records)]
    for heading, notes in table.notes(document):
        if notes:
            lines += ["", *([heading, ""] if heading else []), *[f"- {note}" for note in notes]]
    return "\n".join(lines)


def in_page(page, name, table):
    """The page with the table of the record `name` between the lines that say so."""
    begin = f"<!-- table: written by bench/tables.py {name} -->"
    head, found_begin, rest = page.partition(begin)
    _, found_end, tail = rest.partition(END)
    if not found_begin or not found_end:
        raise SystemExit(f"tables.py: no place for the table; expected the lines {begin} and {END}")
    return f"{head}{begin}\n{table}\n{END}{tail}"


def driver(document):
    return f"driver {document['driver']}" if document["driver"] else "driver not recorded"


def shape(extents):
    return "×".join(map(str, extents))


# ---- pictures


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
