"""What a trace may depend on: the plain values among a function's arguments, and what the function reads besides them.
Used by _trace.py and _proxy.py."""

from __future__ import annotations

import builtins
import functools
import inspect
import numbers
import sys
import types

# Whose insides are as they were when they were imported.
_LIBRARIES = {"torch", "numpy", "cupy", "jax", "scipy", "epifuse", "ml_dtypes", "math", *sys.stdlib_module_names}
_FIXED = (types.ModuleType, type, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


def is_truth(value):
    """True and False, NumPy's too."""
    return type(value).__name__ in ("bool", "bool_")


class Open(Exception):
    """Something that may change without being seen: a trace that depends on it is good for one call."""


def plain(value):
    """A key of an immutable value, which no other value has; Open for anything else."""
    if value is None or value is Ellipsis or value is NotImplemented:
        return value
    if type(value) in (str, bytes, int):
        return type(value), value
    if is_truth(value):
        return bool, bool(value)
    if isinstance(value, float):  # NumPy's float64, too
        return type(value), float(value).hex()
    if isinstance(value, numbers.Number) and type(value).__module__ in ("builtins", "numpy"):
        return type(value), repr(value)
    if type(value).__module__ in ("torch", "numpy.dtypes", "numpy") and type(value).__name__ != "ndarray":
        if not (type(value).__name__.lower().endswith("dtype") or type(value).__name__ in _TORCH_VALUES):
            raise Open
        return value if type(value).__name__ != "Size" else (type(value), tuple(map(plain, value)))
    if isinstance(value, type):
        if value.__module__.partition(".")[0] in _LIBRARIES or value.__module__ == "builtins":
            return type, value
        raise Open
    if type(value) is tuple:
        return tuple, tuple(map(plain, value))
    raise Open


_TORCH_VALUES = {"Size", "device", "memory_format", "layout"}
_NOTHING = object()


class Reads:
    """What a function reads besides its arguments: variables of its closures and of its modules, of the functions that
    it calls likewise, as they were when this was made."""

    def __init__(self, function):
        self._seen, self._reads = set(), []
        self.is_open = False  # whether something else is read than plain values, modules, classes and functions
        self._function(function)

    def hold(self):
        """Whether all of it is still so."""
        return all(now() is value or (key is not _NOTHING and _key(now()) == key) for now, value, key in self._reads)

    def _function(self, function):
        if isinstance(function, functools.partial):
            return self._function(function.func)
        function = inspect.unwrap(function) if callable(function) else function
        if not isinstance(function, types.FunctionType):
            self.is_open |= not isinstance(function, _FIXED)  # a bound method's object, one with __call__
            return
        if function in self._seen:
            return
        self._seen.add(function)
        if function.__module__ and function.__module__.partition(".")[0] in _LIBRARIES:
            return
        for cell in function.__closure__ or ():
            self._value(functools.partial(_of_cell, cell), ())
        names = tuple(_names(function.__code__))
        for name in names:
            if name in function.__globals__:
                self._value(functools.partial(function.__globals__.get, name, _NOTHING), names)
            elif not hasattr(builtins, name):
                # An attribute's name, most likely; a global that does not exist yet raises when it is read.
                continue
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            if isinstance(value, types.FunctionType):
                self._function(value)

    def _value(self, now, names):
        value = now()
        key = _key(value)
        self._reads.append((now, value, key))
        if isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, (types.ModuleType, type)):
            self._attributes(value, names)
        elif key is _NOTHING and not isinstance(value, _FIXED):
            self.is_open = True

    def _attributes(self, owner, names):
        """Of a module or class of the user's: what the code may read there."""
        home = owner.__name__ if isinstance(owner, types.ModuleType) else owner.__module__
        if home.partition(".")[0] in _LIBRARIES or owner in self._seen:
            return
        self._seen.add(owner)
        for name in names:
            if name in vars(owner):
                self._value(functools.partial(getattr, owner, name, _NOTHING), names)


def _of_cell(cell):
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return _NOTHING


def _key(value):
    try:
        return plain(value)
    except Open:
        return _NOTHING


def _names(code):
    """The names that the code, and the functions and comprehensions inside of it, look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
