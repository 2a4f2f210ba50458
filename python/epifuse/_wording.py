"""Errors of fused functions in the words of the function: the library names the operations that a chain is made of,
which need not be those that were called. Used by _trace.py where a chain is refused."""

import re

from ._core import Launcher

_QUOTED = re.compile(r"(?<![\w=])(?<!argument )'([a-z_]\w*)'")
_SHOWN = {"[]": "x[ids]"}
_NAMES = re.compile(r"\b[A-Za-z_]\w*\b(?!\s*[(=])")


def _read_by(lines):
    """The names that statements of a chain read and do not make."""
    read = {name for line in lines for name in _NAMES.findall(line.partition(" = ")[2])}
    return read - {line.partition(" = ")[0] for line in lines} - {"none", "true", "false"}


def _operations(lines):
    """The operations that statements of a chain consist of, and the functions that they are written with."""
    functions = set(re.findall(r"\b([a-z_]\w*)\(", " ".join(lines)))
    made, read = {line.partition(" = ")[0] for line in lines}, _read_by(lines)
    text = f"input {', '.join(sorted(read))}; {'; '.join(lines)}; return {', '.join(sorted(made))}"
    try:
        values = Launcher(text).values()
    except ValueError:  # a name that means something else than an operand
        return functions
    return functions | {value["op"] for value in values}


def as_called(problem, calls):
    """The error with each operation that nobody called by the name of the call that it comes of, if that is one.
    `calls`: names of what was called, and the statements that each wrote."""
    called = {name for name, _ in calls}.union(*(_read_by(lines) for _, lines in calls))  # operands have names, too
    origins = {}
    for name, lines in calls:
        for operation in _operations(lines) if lines else ():
            origins.setdefault(operation, []).append(name)

    def name_of(match):
        operation = match[1]
        if operation in called or operation not in origins:
            return match[0]
        return " or ".join(f"'{_SHOWN.get(name, name)}'" for name in dict.fromkeys(origins[operation]))

    return type(problem)(_QUOTED.sub(name_of, str(problem)))
