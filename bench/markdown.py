"""Tables in the documents, for the scripts of this folder that write them."""


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
