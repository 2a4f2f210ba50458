"""The stand-ins on which a traced function runs. What is done to them becomes a chain, by the row of the very function
that was called, in the library that it is of. Used by _trace.py."""

from __future__ import annotations

import functools
import math
import numbers
import operator
import sys

from . import _exact, _ops, _shapes
from ._core import Launcher
from ._exact import Known, KnownChain
from ._guards import Open, is_truth, plain
from ._libraries import OPERATORS, NumPy, Torch, library_of, our_name
from ._rows import Missing


class Untraceable(TypeError):
    """A function did something with a tensor that one kernel cannot do. The text names it."""


class NeedsValue(BaseException):
    """The function needs the values of these numbers: they belong to the trace. Nobody but _trace.py may catch it."""

    def __init__(self, names):
        super().__init__(names)
        self.names = names


class Trace:
    """One run of a function: the chain that it writes, and what it looked at."""

    def __init__(self):
        self.chain = KnownChain()
        self.operands = {}  # names of the chain's tensors: (name of the argument, shape)
        self.reads_device = False
        self.calls = []  # rows, and the statements that they wrote

    def tensor(self, name, array, position):
        """The stand-in of an array."""
        made = self.chain.input(self._unused(name))
        value = Known(made.name)
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            kind = type(array).__name__
            raise Untraceable(f"'{name}' is a {kind}, which has no .shape and .dtype: use epifuse.compile")
        value.dtype, value.shape = our_name(array.dtype), tuple(map(_shapes.hint, array.shape))
        if value.dtype is None:
            raise Untraceable(f"'{name}' is an array of the type {array.dtype}, which EpiFuse does not have")
        self.chain.is_symbolic |= any(type(extent) is not int for extent in array.shape)
        value.low, value.high, value.whole, value.standing, value.truth = _exact.facts_of_type(value.dtype)
        value.kind = "bool" if value.truth else "int" if value.whole else "float"
        self.operands[value.name] = (position, tuple(array.shape))
        self.chain.is_wide |= value.dtype == "f64"
        return Proxy(self, value, library_of(array), array)

    def number(self, name, number):
        """The stand-in of a run-time scalar."""
        made = self.chain.scalar(self._unused(name))
        value = Known(made.name, -math.inf, math.inf, isinstance(number, numbers.Integral), _exact.NEAREST)
        value.kind, value.shape = "int" if value.whole else "float", ()
        value.like = {"number": type(number)(1), "value": number}
        value.roots = frozenset([name])
        return Proxy(self, value, None)

    def _unused(self, name):
        """A name of the language of chains that nothing else has."""
        name = name.rpartition(".")[2].replace("[", "").replace("]", "")
        taken = {*self.chain.inputs, *self.chain.scalars, *_ops.RESERVED}
        base = (name if not name.startswith("_") else f"x{name}")[:50] if name.isascii() else "x"
        candidates = (base if not i else f"{base}_" if i == 1 else f"{base}_{i}" for i in range(len(taken) + 2))
        return next(one for one in candidates if one not in taken)

    def shape_of(self, value):
        """Of a value of the chain."""
        launcher = Launcher(self.chain.text([value]))
        shapes = {name: tuple(map(_shapes.hint, shape)) for name, (_, shape) in self.operands.items()}
        return _shapes.value_shapes(launcher.values(), shapes)[launcher.result_values[0]]


def _operator(name, swapped=False):
    def method(self, other):
        return _operate(name, (other, self) if swapped else (self, other))

    return method


class Proxy:
    """Stands for an array, or a run-time scalar, while a function is traced."""

    __slots__ = ("_trace", "_value", "_library", "_array")
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __init__(self, trace, value, library, array=None):
        self._trace, self._value, self._library, self._array = trace, value, library, array

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return _call(Torch, function, args, kwargs or {})

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        if method != "__call__":
            raise Untraceable(f"numpy.{ufunc.__name__}.{method} is not an operation of EpiFuse")
        if self._library is not NumPy and ufunc.__name__ in _UFUNCS and not kwargs:
            if all(isinstance(one, (Proxy, numbers.Real)) for one in args):  # a number of NumPy's to the left
                return _operate(_UFUNCS[ufunc.__name__], args)
        return _call(NumPy, ufunc, args, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return _call(NumPy, function, args, kwargs)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if self._library is None:
            raise Untraceable(f".{name} of the number '{self._value.name}'")
        if name in _FACTS and not (name == "size" and self._library is Torch):
            return _FACTS[name](self)
        if name in _FACT_METHODS and self._library is Torch:
            return functools.partial(_FACT_METHODS[name], self)
        library = self._library
        if library is NumPy and not NumPy.has_method(name) and "torch" in sys.modules:
            library = Torch
        row = library.method_row(name)
        if row is None:
            raise Untraceable(_unknown(f"the method {name}", library))
        return functools.partial(_method, self, library, name, row)

    def __bool__(self):
        if self._library is None:
            raise Untraceable(
                f"a condition on a run-time scalar ({_roots(self._value)}): the kernel would have one side for all of "
                "its values; give what follows from it as an argument of its own (True or False), or choose with "
                "torch.where"
            )
        raise Untraceable(
            "a condition on a tensor's elements (if, while, and, or, not): one kernel computes both sides, "
            "with torch.where"
        )

    def __iter__(self):
        raise Untraceable("a loop over a tensor's elements: a chain works on all of them at once")

    def __getitem__(self, key):
        row = self._library and self._library.method_row("__getitem__")
        if row is None:
            raise Untraceable(f"[] of the number '{self._value.name}'")
        if any(isinstance(one, Proxy) and one._library is not None for one in (key if isinstance(key, tuple) else (key,))):
            row = self._library.method_row("[]") or row  # NumPy's rows have none
        return _method(self, self._library, "__getitem__", row, key)

    def __setitem__(self, key, value):
        raise Untraceable("assigning to a tensor's elements: torch.where chooses between two values")

    def __float__(self):
        if self._library is None:
            raise Untraceable(
                f"a number made of a run-time scalar ({_roots(self._value)}), as by float() or the module math: "
                "compute it before the call"
            )
        raise Untraceable("a number made of a tensor: give numbers to the function as arguments of their own")

    __int__ = __complex__ = __float__

    def __index__(self):
        if self._library is None and self._value.kind == "int" and self._value.roots:
            raise NeedsValue(self._value.roots)
        return self.__float__()

    def __len__(self):
        return _shape(self)[0]

    @property
    def __class__(self):
        """A run-time scalar is a number to whoever asks. (Of a tensor PyTorch's C++ would believe it, and crash.)"""
        return type(self._value.like["number"]) if self._library is None else Proxy

    def __contains__(self, _):
        raise Untraceable("a search among a tensor's elements")

    def __reversed__(self):
        return self.__iter__()

    def __array__(self, *_, **__):
        raise Untraceable("an array made of a stand-in: the function is traced, and has no elements")


_UFUNCS = {numpy_name.removeprefix("numpy."): name for name, (_, numpy_name) in OPERATORS.items()}

for _special in OPERATORS:
    if _special in ("neg", "abs", "invert", "pos"):
        setattr(Proxy, f"__{_special}__", lambda self, _name=_special: _operate(_name, (self,)))
        continue
    _plain = _special.rstrip("_")
    setattr(Proxy, f"__{_plain}__", _operator(_special))
    if _special not in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Proxy, f"__r{_plain}__", _operator(_special, swapped=True))


def _in_place(name):
    def method(self, other):
        if self._library is None:
            return _operate(name, (self, other))
        sign = _SIGNS[name]
        raise Untraceable(f"an operator that changes a tensor in place ({sign}=): write y = y {sign} …")

    return method


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}
_SIGNS |= {"and_": "&", "or_": "|", "xor": "^"}
for _special in _SIGNS:
    setattr(Proxy, f"__i{_special.rstrip('_')}__", _in_place(_special))


def _refused(what):
    def method(self, *_):
        raise Untraceable(f"{what} is not an operation that EpiFuse can fuse: compute it before or after")

    return method


Proxy.__imatmul__ = _refused("matmul in place")
for _special in ("lshift", "rlshift", "rshift", "rrshift", "ilshift", "irshift"):
    setattr(Proxy, f"__{_special}__", _refused("a shift of bits"))
for _special in ("divmod", "rdivmod", "round", "trunc", "floor", "ceil"):
    setattr(Proxy, f"__{_special}__", _refused(f"Python's {_special}"))


# ---- what a stand-in knows of itself


def _shape(proxy):
    if proxy._trace.chain.is_symbolic and proxy._array is None:
        raise Untraceable(".shape of a computed value, where extents are symbols")
    shape = proxy._value.shape if proxy._array is None else tuple(proxy._array.shape)
    if proxy._library is Torch:
        import torch

        return torch.Size(shape)
    return shape


def _dtype(proxy):
    return proxy._array.dtype if proxy._array is not None else _stand_in(proxy, proxy._library).dtype


def _device(proxy):
    if proxy._array is None:
        raise Untraceable(".device of a computed value: only the function's own arguments know theirs")
    proxy._trace.reads_device = True
    return proxy._array.device


def _reversed(proxy):
    dims = tuple(reversed(range(len(_shape(proxy)))))
    return proxy.permute(dims) if proxy._library is Torch else proxy.transpose(dims)


_FACTS = {
    "T": _reversed,
    "mT": lambda proxy: proxy.transpose(-2, -1) if proxy._library is Torch else proxy.swapaxes(-2, -1),
    "shape": _shape,
    "dtype": _dtype,
    "device": _device,
    "ndim": lambda proxy: len(_shape(proxy)),
    "size": lambda proxy: math.prod(_shape(proxy)),
}


def _size(proxy, dim=None):
    return _shape(proxy) if dim is None else _shape(proxy)[dim]


_FACT_METHODS = {
    "size": _size,
    "dim": lambda proxy: len(_shape(proxy)),
    "ndimension": lambda proxy: len(_shape(proxy)),
    "numel": lambda proxy: math.prod(_shape(proxy)),
    "nelement": lambda proxy: math.prod(_shape(proxy)),
    "is_floating_point": lambda proxy: proxy._value.kind == "float",
}


def _roots(value):
    return ", ".join(f"'{name}'" for name in sorted(value.roots)) or "computed"


# ---- calls


def _unknown(what, library):
    import difflib

    name = what.rsplit(" ", 1)[-1].rpartition(".")[2]
    hint = ""
    if name.endswith("_") and library.method_row(name[:-1]):
        hint = f" (it changes a tensor in place; {name[:-1]!r} gives a new one)"
    else:
        known = {one.rpartition(".")[2] for one in library.table.rows} - {name}
        near = difflib.get_close_matches(name, known, 1)
        hint = f" (it has {near[0]!r})" if near else ""
    return f"{what} is not an operation that EpiFuse can fuse{hint}: compute it before or after the fused function"


def _name_of(library, function):
    name = getattr(function, "__name__", str(function))
    module = getattr(function, "__module__", None) or ""
    return name if name.startswith("_") else f"{module.partition('.')[0] or library.name}.{name}"


def _call(library, function, args, kwargs):
    """A function of a library was called with stand-ins."""
    try:
        row = library.functions().get(function)
    except TypeError:
        row = None
    if row is None:
        raise Untraceable(_unknown(_name_of(library, function), library))
    if library is NumPy and any(one._library is Torch for one in _proxies(args, kwargs)):
        import numpy

        if not isinstance(function, numpy.ufunc):
            raise Untraceable(f"numpy.{function.__name__} of a tensor of PyTorch: torch has its own")
    return _apply(library, row, function, args, kwargs)


def _method(proxy, library, name, row, *args, **kwargs):
    return _apply(library, row, lambda like, *rest, **more: getattr(like, name)(*rest, **more), (proxy, *args), kwargs)


def _operate(name, args):
    libraries = [one._library for one in args if isinstance(one, Proxy)]
    if all(one is None for one in libraries):
        if any(not isinstance(one, (Proxy, numbers.Real)) for one in args):
            return NotImplemented
        return _numbers(name, args)
    library = Torch if Torch in libraries else NumPy
    for one in args:
        if not isinstance(one, (Proxy, numbers.Real)) and not _is_constant(one):
            if _is_outside(one):
                raise Untraceable(_OUTSIDE)
            return NotImplemented
    return _apply(library, library.operator_row(name), getattr(operator, name), args, {})


_OUTSIDE = "an array that is no argument of the function: give it as one"


def _is_constant(value):
    return is_truth(value) or isinstance(value, numbers.Real)


def _is_outside(value):
    return not isinstance(value, type) and any(hasattr(value, name) for name in _INTERFACES)


_INTERFACES = ("__dlpack__", "__cuda_array_interface__", "__array_interface__")


def _proxies(args, kwargs):
    for one in (*args, *kwargs.values()):
        if isinstance(one, Proxy):
            yield one
        elif isinstance(one, (tuple, list)):
            yield from (inner for inner in one if isinstance(inner, Proxy))


def _apply(library, row, function, args, kwargs):
    trace = next(_proxies(args, kwargs))._trace
    if kwargs.get("out", trace) is None:
        kwargs = {key: one for key, one in kwargs.items() if key != "out"}
    if library is Torch:  # which takes NumPy's names too
        kwargs = {_ALSO.get(key, key): one for key, one in kwargs.items()}
    try:
        bound = row.bind(args, kwargs)
        for name in row.constants:
            bound.arguments[name] = _constant(row.name, name, bound.arguments[name])
        for name in row.either:
            given = bound.arguments[name]
            if not isinstance(given, Proxy) or given._library is None:
                bound.arguments[name] = _constant(row.name, name, given)
        try:
            like = _run(library, row.name, function, *_of_library(trace, library, args, kwargs))
        except NotImplementedError:
            raise _ops.Unsupported(f"'{row.name}' of operands of these types") from None
        for name, one in bound.arguments.items():
            if name not in row.constants:
                bound.arguments[name] = _of_chain(trace, row.name, one)
        if library is Torch:
            _check_constants(row, bound)
        first = len(trace.chain.lines)
        made = row(trace.chain, bound)
        trace.calls.append((row.name.rpartition(".")[2].strip("_"), trace.chain.lines[first:]))
        if not isinstance(made, tuple):
            return _result(trace, library, row.name, made, like)
        return type(made)(_parts(trace, library, row.name, made, like))
    except _ops.Unsupported as problem:
        raise Untraceable(str(problem)) from None


def _check_constants(row, bound):
    """PyTorch makes a number the type of the integers that it meets, where it may become another."""
    given = [one for name, one in bound.arguments.items() if name not in row.constants]
    tensors = [one for one in given if isinstance(one, Known) and not one.is_number]
    if any(one.kind == "float" for one in tensors):
        return
    for least, most in (Torch.limits(one.like["torch"]) for one in tensors if one.kind == "int"):
        for one in given:
            if isinstance(one, Known) and one.is_number and one.kind == "int" and most < 2**31:
                raise NeedsValue(one.roots)
            if type(one) is int and not least <= one <= most:
                raise _ops.Unsupported(
                    f"'{row.name}' of integers in [{least}, {most}] and {one}, which wraps around in PyTorch"
                )


_MOST_RUNS = 16384
_RUNS = {}  # what the libraries said of stand-ins: PyTorch takes up to 0.5 ms for each, of which a trace has one a call


def _run(library, name, function, args, kwargs):
    try:
        key = (library.name, name, tuple(map(_key, args)), tuple((key, _key(one)) for key, one in kwargs.items()))
    except Open:
        return library.run(function, args, kwargs)
    if key not in _RUNS:
        if len(_RUNS) >= _MOST_RUNS:
            _RUNS.clear()
        made = library.run(function, args, kwargs)
        given = (*args, *kwargs.values())
        given = [inner for one in given for inner in (one if type(one) is tuple else (one,))]
        arrays = [one for one in given if _is_outside(one) and not _is_constant(one)]
        if any(map(is_truth, given)) or any(library.kind(one) != "float" for one in arrays):
            library.check(name, function, args, kwargs)
        _RUNS[key] = made
    return _RUNS[key]


def _key(value):
    if _is_outside(value) and not _is_constant(value):
        return type(value), tuple(value.shape), value.dtype
    return tuple(map(_key, value)) if type(value) is tuple else plain(value)


_ALSO = {"axis": "dim", "keepdims": "keepdim"}


def _parts(trace, library, name, made, likes):
    return [
        NoResult(one) if isinstance(one, Missing) else _result(trace, library, name, one, like)
        for one, like in zip(made, likes)
    ]


class NoResult:
    """A result that a chain does not have. Any use says so."""

    __slots__ = ("_missing",)

    def __init__(self, missing):
        self._missing = missing

    def __getattr__(self, name):
        raise Untraceable(self._missing._why)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise Untraceable("a result that a chain does not have")


def _no_result(self, *_):
    raise Untraceable(self._missing._why)


for _special in OPERATORS:
    for _prefix in ("", "r") if _special not in ("neg", "abs", "invert", "pos", "eq", "ne") else ("",):
        setattr(NoResult, f"__{_prefix}{_special.rstrip('_')}__", _no_result)
for _special in ("bool", "float", "int", "index", "iter", "len", "getitem"):
    setattr(NoResult, f"__{_special}__", _no_result)


def _result(trace, library, name, value, like):
    if not hasattr(like, "dtype"):
        raise _ops.Unsupported(f"'{name}' gives a {type(like).__name__} and no tensor")
    if not isinstance(value, Known):
        raise _ops.Unsupported(f"'{name}' gives a number and no tensor")
    kind, shape = library.kind(like), library.shape(like)
    settled = _exact.settle(
        trace.chain,
        value,
        {library.name: like},
        shape if shape is not None else lambda: trace.shape_of(settled),
        name,
        None if kind == "float" else library.limits(like),
        kind,
        our_name(like.dtype),
    )
    return Proxy(trace, settled, library)


def _constant(row, name, value):
    """What a parameter that belongs to the chain is given."""
    if isinstance(value, (tuple, list)):
        return type(value)(_constant(row, name, one) for one in value) if type(value) in (tuple, list) else value
    if isinstance(value, Proxy):
        if value._library is None and value._value.roots:
            raise NeedsValue(value._value.roots)
        raise _ops.Unsupported(f"'{row}' with a tensor for {name}: it belongs to the chain")
    return _plain(value)


def _plain(value):
    """NumPy's numbers as Python's."""
    if is_truth(value):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return value


def _of_chain(trace, row, value):
    if isinstance(value, (tuple, list)):
        return tuple(_of_chain(trace, row, one) for one in value)
    if not isinstance(value, Proxy):
        if _is_outside(value) and not isinstance(value, numbers.Real) and not _is_constant(value):
            raise _ops.Unsupported(f"'{row}' of {_OUTSIDE}")
        return _plain(value)
    if value._trace is not trace:
        raise _ops.Unsupported(f"'{row}' of values of two fused functions")
    return value._value


def _stand_in(proxy, library):
    value = proxy._value
    if value.is_number:
        return value.like["number"]
    like = value.like.get(library.name)
    if like is None:
        if value.dtype is None:
            raise _ops.Unsupported("a value of a type that EpiFuse does not have")
        like = value.like[library.name] = library.stand_in(value, value.shape)
    return like


def _of_library(trace, library, args, kwargs):
    def stand_in(value):
        if isinstance(value, Proxy):
            return _stand_in(value, library)
        if isinstance(value, (tuple, list)) and any(isinstance(one, Proxy) for one in value):
            return tuple(map(stand_in, value))
        if _is_outside(value) and not _is_constant(value):
            raise _ops.Unsupported(_OUTSIDE)
        return value

    return [stand_in(one) for one in args], {key: stand_in(one) for key, one in kwargs.items()}


# ---- run-time scalars among themselves


_ON_NUMBERS = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow", "neg": "neg", "abs": "abs"}
_ON_NUMBERS |= {name: name for name in ("eq", "ne", "lt", "le", "gt", "ge")}


def _numbers(name, args):
    """An operation of Python's numbers, at least one of which is known at run time only. Integers are those of f32."""
    trace = next(one._trace for one in args if isinstance(one, Proxy))
    if name == "pos":
        return args[0]
    values = [one._value if isinstance(one, Proxy) else _plain(one) for one in args]
    kinds = [_exact.kind_of(one) for one in values]
    roots = frozenset().union(*(one.roots for one in values if isinstance(one, Known)))
    whole = "float" not in kinds
    if name not in _ON_NUMBERS or (name == "pow" and whole):
        if whole:
            raise NeedsValue(roots)
        raise Untraceable(f"'{name}' of run-time scalars ({_roots_of(roots)}): compute it before the call")
    likes = [one._value.like["number"] if isinstance(one, Proxy) else one for one in args]
    if name in ("truediv", "pow"):
        likes = [one or 1 for one in likes]
    like = getattr(operator, name)(*likes)
    made = trace.chain.emit(_ON_NUMBERS[name], *values)
    made.kind = "bool" if isinstance(like, bool) else "int" if isinstance(like, numbers.Integral) else "float"
    made.shape, made.like, made.roots = (), {"number": type(like)(1)}, roots
    made.whole, made.standing = made.kind != "float", _exact.EQUAL if made.kind == "float" else _exact.UNKNOWN
    return Proxy(trace, made, None)


def _roots_of(roots):
    return ", ".join(f"'{name}'" for name in sorted(roots))
