"""epifuse.fuse: an ordinary function of tensors, run once on proxies that write down what is done to them."""

from __future__ import annotations

import functools
import inspect
import numbers
import sys
from typing import Any, Callable

from . import _ops, _tail
from ._core import Launcher
from ._tail import Plan, Tail


class Untraceable(TypeError):
    """A function did something with a tensor that one kernel cannot do. The text names it."""


# What a chain can be told that the proxy does not know: read from the arrays of the call, which then belong to the
# trace.
_FACTS = ("shape", "ndim", "dtype", "device")


class Proxy:
    """Stands for an array while a function is traced."""

    __slots__ = ("_trace", "_value", "_array")
    __array_priority__ = 1000

    def __init__(self, trace, value, array=None):
        self._trace, self._value, self._array = trace, value, array

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return _apply(_name_of(function), args, kwargs or {})

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        if method != "__call__":
            raise Untraceable(f"numpy.{ufunc.__name__}.{method} is not an operation of EpiFuse")
        return _apply(ufunc.__name__, args, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return _apply(function.__name__, args, kwargs)

    def __getattr__(self, name):
        if name in _FACTS:
            if self._array is None:
                raise Untraceable(f".{name} of a computed value: only the function's own arguments know theirs")
            self._trace.facts.add(name)
            return tuple(self._array.shape) if name == "shape" else getattr(self._array, name)
        if name.startswith("__") or _ops.find(name) is None:
            raise AttributeError(name) if name.startswith("__") else Untraceable(_unknown(f"the method {name}"))
        return functools.partial(_method, self, name)

    def __bool__(self):
        raise Untraceable(
            "a condition on a tensor's elements (if, while, and, or, not): one kernel computes both sides, "
            "with torch.where"
        )

    def __iter__(self):
        raise Untraceable("a loop over a tensor's elements: a chain works on all of them at once")

    def __getitem__(self, key):
        raise Untraceable("indexing a tensor: slice it before the call; strides cost nothing")

    def __setitem__(self, key, value):
        raise Untraceable("assigning to a tensor's elements: torch.where chooses between two values")

    def __float__(self):
        raise Untraceable("a number made of a tensor: give numbers to the function as arguments of their own")

    __int__ = __index__ = __float__

    def dim(self):
        return self.ndim

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    __hash__ = object.__hash__


def _operator(name, swapped=False):
    def method(self, other):
        return _apply(name, (other, self) if swapped else (self, other), {})

    return method


for _special, _name in {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "pow": "pow",
    "mod": "remainder",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "logical_xor",
    "matmul": "matmul",  # refused by name
}.items():
    setattr(Proxy, f"__{_special}__", _operator(_name))
    setattr(Proxy, f"__r{_special}__", _operator(_name, swapped=True))
for _special in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Proxy, f"__{_special}__", _operator(_special))
for _special, _unary in {"neg": "neg", "abs": "abs", "invert": "logical_not", "pos": "positive"}.items():
    setattr(Proxy, f"__{_special}__", lambda self, _unary=_unary: _apply(_unary, (self,), {}))
setattr(Proxy, "__floordiv__", lambda self, other: _apply("floor", (self / other,), {}))


def _method(proxy, name, *args, **kwargs):
    result = _apply(name, (proxy, *args), kwargs)
    if name.endswith("_"):  # in place: later uses of the same name see the new value
        proxy._value = result._value
        return proxy
    return result


def _name_of(function):
    return getattr(function, "__name__", str(function))


def _unknown(what):
    import difflib

    near = difflib.get_close_matches(what.rsplit(" ", 1)[-1], _ops.TABLE, 1)
    hint = f" (it has {near[0]!r})" if near else ""
    return f"{what} is not an operation that EpiFuse can fuse{hint}: compute it before or after the fused function"


def _apply(name, args, kwargs):
    row = _ops.find(name)
    if row is None:
        raise Untraceable(_unknown(name))
    trace = next(one._trace for one in (*args, *kwargs.values()) if isinstance(one, Proxy))

    def unwrap(value):
        if not isinstance(value, Proxy):
            return value
        if value._trace is not trace:
            raise Untraceable(f"'{name}' of values of two fused functions")
        return value._value

    try:
        result = row(trace.chain, *(unwrap(one) for one in args), **{key: unwrap(one) for key, one in kwargs.items()})
    except _ops.Unsupported as problem:
        raise Untraceable(str(problem)) from None
    except TypeError as problem:
        raise Untraceable(f"'{name}': {problem}") from None
    if isinstance(result, tuple):
        return tuple(Proxy(trace, one) if one is not None else None for one in result)
    return Proxy(trace, result)


class _Trace:
    def __init__(self):
        self.chain, self.facts = _ops.Chain(), set()


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)  # NumPy's scalars are such numbers too


def _is_array(value):
    return (
        hasattr(value, "__dlpack__")
        or hasattr(value, "__cuda_array_interface__")
        or hasattr(value, "__array_interface__")
    )


class Fused:
    """A function as one kernel. Called like the function, with arrays for tensors; numbers become run-time scalars,
    which compile nothing when they change; everything else (None, text, tuples) is part of the trace. out= and dtype=
    as of Tail."""

    def __init__(self, function, dtype=None):
        functools.update_wrapper(self, function)
        self._function, self._dtype = function, dtype
        self._signature = inspect.signature(function)
        self._traces = {}  # by kinds of arguments: (facts that the trace read, {facts: Tail})

    def __call__(self, *args: Any, out: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
        if _tail.compiling() and out is None:
            from ._torch_ops import plain

            return plain(self._function, args, kwargs, self._dtype if dtype is None else dtype)
        tail, operands = self._tail_for(args, kwargs)
        return tail(*operands, out=out, dtype=self._dtype if dtype is None else dtype)

    def tail(self, *args: Any, **kwargs: Any) -> Tail:
        """The Tail that such a call uses, for a look at its text, plan and source."""
        return self._tail_for(args, kwargs)[0]

    def plan(self, *args: Any, dtype: Any = None, arch: int | None = None, **kwargs: Any) -> Plan:
        """How such a call would run: Tail.plan of arrays."""
        tail, operands = self._tail_for(args, kwargs)
        return tail.plan(*operands[: len(tail.inputs)], dtype=dtype, arch=arch)

    def source(self, *args: Any, **kwargs: Any) -> str:
        """The CUDA source of the kernel for such a call."""
        return self.plan(*args, **kwargs).source

    def __repr__(self):
        return f"<epifuse.fuse of {getattr(self, '__qualname__', self._function)}{self._signature}>"

    def _tail_for(self, args, kwargs):
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        slots = list(self._slots(bound.arguments))
        kinds = tuple(
            (name, "number" if _is_number(value) else "array" if _is_array(value) else repr(value))
            for name, value in slots
        )
        arrays = [value for (_, value), (_, kind) in zip(slots, kinds) if kind == "array"]
        numbers_ = [float(value) for (_, value), (_, kind) in zip(slots, kinds) if kind == "number"]
        facts, tails = self._traces.setdefault(kinds, (set(), {}))
        key = tuple(str(getattr(array, fact)) for fact in sorted(facts) for array in arrays)
        tail = tails.get(key)
        if tail is None:
            tail, read = self._trace(bound, kinds)
            if read - facts:
                facts |= read
                tails.clear()
            tails[tuple(str(getattr(array, fact)) for fact in sorted(facts) for array in arrays)] = tail
        return tail, arrays + numbers_

    def _slots(self, arguments):
        for name, value in arguments.items():
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                yield from ((f"{name}{i}", one) for i, one in enumerate(value))
            elif kind is inspect.Parameter.VAR_KEYWORD:
                yield from value.items()
            else:
                yield name, value

    def _trace(self, bound, kinds):
        trace = _Trace()
        kind_of = dict(kinds)

        def stand_in(name, value):
            kind = kind_of[name]
            if kind not in ("array", "number"):
                return value
            written = name + "_" if name in _ops.RESERVED or name.startswith("_") else name
            made = trace.chain.input(written) if kind == "array" else trace.chain.scalar(written)
            return Proxy(trace, made, value if kind == "array" else None)

        given, named = [], {}
        for name, value in bound.arguments.items():
            parameter = self._signature.parameters[name].kind
            if parameter is inspect.Parameter.VAR_POSITIONAL:
                given += [stand_in(f"{name}{i}", one) for i, one in enumerate(value)]
            elif parameter is inspect.Parameter.VAR_KEYWORD:
                named.update({key: stand_in(key, one) for key, one in value.items()})
            elif parameter is inspect.Parameter.KEYWORD_ONLY:
                named[name] = stand_in(name, value)
            else:
                given.append(stand_in(name, value))
        results = self._function(*given, **named)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        for result in results:
            if not isinstance(result, Proxy):
                raise Untraceable(f"{self!r} returns {type(result).__name__}, expected tensors")
        return Tail(Launcher(trace.chain.text([one._value for one in results]), [], [], [])), trace.facts


def fuse(function: Callable | None = None, *, dtype: Any = None) -> Any:
    """Makes one kernel of a function of tensors.

        @epifuse.fuse
        def tail(x, bias, alpha: float):
            return F.gelu(x + bias) * alpha

        y = tail(conv, bias, 0.5)

    The function runs once per kind of arguments, on proxies: Python's operators, functions of torch and
    torch.nn.functional, NumPy's functions, and methods such as x.sigmoid(). dtype= is the type of new results. Raises
    Untraceable (a TypeError) that names the operation, where one is not EpiFuse's; ValueError for a chain that cannot
    be one kernel.
    """
    if function is None:
        return functools.partial(fuse, dtype=dtype)
    if "torch" in sys.modules:
        from . import _torch_ops  # noqa: F401  so that torch.compile's tracer is known
    return Fused(function, dtype)
