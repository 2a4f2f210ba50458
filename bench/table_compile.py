"""The table of what kernels cost to compile, for tables.py."""

from markdown import MISSING, Column, Table, driver, text


def head(document, _):
    settings = document["settings"]
    return [
        f"Device: {document['device']}, {driver(document)}; NVRTC {document['versions']['nvrtc']} for "
        f"sm_{settings['architecture']}, user CPU time: "
        f"the least of {settings['rounds']} rounds, and the median over a bare kernel compiled just before, which takes "
        f"{settings['bare_ms']:.1f} ms at least. "
        f"At `{document['commit'][:12]}`, {document['date'][:10]}."
    ]


def count(name):
    return lambda document, record: MISSING if record[name] is None else str(record[name])


COLUMNS = [
    Column("kernel", **text(lambda d, r: r["case"])),
    Column("ms", lambda d, r: f"{r['ms']:.0f}"),
    Column("over bare", lambda d, r: f"{r['over_bare']:.2f}"),
    Column("lines", count("lines")),
    Column("instructions", count("instructions")),
    Column("on the hot path", count("hot_path")),
    Column("registers", count("registers")),
    Column("spilled bytes", count("spill_bytes")),
]

TABLE = Table(head, lambda document: [(None, COLUMNS, document["records"])])
