"""A row says what one function of PyTorch or NumPy is in a chain. Its Python function has the exact signature of the
original, less what the row does not understand, so that an argument it does not name cannot be given. _rows_torch.py,
_rows_torch_shapes.py and _rows_numpy.py are the tables; _proxy.py looks functions up by what they are, never by their bare names."""

from __future__ import annotations

import inspect

from ._ops import Unsupported


class Const:
    """Marks a parameter that belongs to the chain: a run-time scalar cannot stand for it."""


class Either:
    """Marks a parameter that a tensor, but no run-time scalar can stand for."""


class Inert:
    """Marks a parameter that the row understands at its default only."""


class Row:
    def __init__(self, name, function):
        self.name, self.function = name, function
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]  # less the chain
        self.signature = inspect.Signature(parameters)
        self.constants = [one.name for one in parameters if one.annotation is Const]
        self.either = [one.name for one in parameters if one.annotation is Either]
        self.inert = {one.name: one.default for one in parameters if one.annotation is Inert}

    def bind(self, args, kwargs):
        """The arguments by name, defaults filled in."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as problem:
            known = ", ".join(self.signature.parameters)
            raise Unsupported(f"'{self.name}': {problem}; a kernel knows its arguments ({known})") from None
        bound.apply_defaults()
        for name, default in self.inert.items():
            given = bound.arguments[name]
            if given is not default and (type(given) is not type(default) or given != default):
                raise Unsupported(f"'{self.name}' with {name}={given!r}")
        return bound

    def __call__(self, c, bound):
        return self.function(c, *bound.args, **bound.kwargs)


class Table:
    """Rows by qualified name, as "F.relu" or "Tensor.add"."""

    def __init__(self):
        self.rows = {}

    def add(self, *names):
        """A decorator: the row of each of these names."""

        def enter(function):
            for name in " ".join(names).split():
                self.rows[name] = Row(name, function)
            return function

        return enter

    def find(self, name):
        return self.rows.get(name)

    def by_function(self, folders):
        """{function: row}, of what the libraries at hand have. `folders`: the object that each prefix stands for."""
        found = {}
        for name, row in self.rows.items():
            prefix, _, own = name.rpartition(".")
            function = getattr(folders.get(prefix), own, None)
            if function is not None:
                found[function] = row
        return found


class Missing:
    """Stands for a result that a chain does not have."""

    __slots__ = ("_why",)

    def __init__(self, why):
        self._why = why
