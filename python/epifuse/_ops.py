"""Writes chains as text, a statement for each operation. _trace.py and _rows*.py do so of functions, _group.py of graphs."""

import math
import re

from ._arrays import NAMES, PACKED


class Unsupported(Exception):
    """An operation, or a way of using one, that a chain does not have. The text says which and why."""


class Value:
    """A value of a chain that is being written. `name` is what the text calls it."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name


RESERVED = {
    "input",
    "scalar",
    "return",
    "and",
    "or",
    "not",
    "inf",
    "nan",
    "true",
    "false",
    "none",
    *NAMES,
    *PACKED,
}


class Chain:
    """Writes the text of a chain, a statement per operation."""

    def __init__(self):
        self.inputs, self.scalars, self.lines = [], [], []

    def input(self, name):
        self.inputs.append(name)
        return Value(name)

    def scalar(self, name):
        self.scalars.append(name)
        return Value(name)

    def emit(self, function, *args, **kwargs):
        parts = [_argument(one) for one in args] + [f"{key}={_argument(one)}" for key, one in kwargs.items()]
        return self.write(f"{function}({', '.join(parts)})")

    def write(self, expression):
        """A statement of that text."""
        value = Value(f"_{len(self.lines)}")
        self.lines.append(f"{value.name} = {expression}")
        return value

    def text(self, results, only_used=False):
        inputs, scalars = self.inputs, self.scalars
        if only_used:
            used = set(re.findall(r"\w+", " ".join([*self.lines, *(one.name for one in results)])))
            inputs, scalars = ([one for one in many if one in used] for many in (inputs, scalars))
        head = [f"input {', '.join(inputs)}"] if inputs else []
        head += [f"scalar {', '.join(scalars)}"] if scalars else []
        # In parentheses a result is not called by the name of its statement.
        return "; ".join(head + self.lines + ["return " + ", ".join(f"({one.name})" for one in results)])


def _argument(value):
    if isinstance(value, Value):
        return value.name
    if value is None:
        return "none"
    if value is Ellipsis:
        return "..."
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (int, float)):
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "(-inf)"
        return repr(value) if value >= 0 else f"({value!r})"
    if isinstance(value, (list, tuple)):
        return _argument(value[0]) if len(value) == 1 else f"({', '.join(_argument(one) for one in value)})"
    raise Unsupported(f"an argument is a {type(value).__module__}.{type(value).__qualname__}")
