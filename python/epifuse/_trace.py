"""epifuse.fuse: an ordinary function of tensors, run on stand-ins that write down what is done to them."""

from __future__ import annotations

import collections
import functools
import inspect
import numbers
import sys
from typing import Any, Callable

from . import _shapes, _tail
from ._core import Launcher
from ._guards import Open, Reads, is_truth, plain
from ._proxy import NeedsValue, NoResult, Proxy, Trace, Untraceable
from ._tail import Plan, Tail
from ._wording import as_called

__all__ = ["Fused", "Untraceable", "fuse"]

_MOST_TRACES = 1024  # that a function keeps


def _is_number(value):
    return isinstance(value, numbers.Real) and not is_truth(value)  # NumPy's scalars are such numbers too


def _is_array(value):
    # NumPy's scalars have the interface of arrays.
    return not isinstance(value, numbers.Number) and not is_truth(value) and (
        hasattr(value, "__dlpack__")
        or hasattr(value, "__cuda_array_interface__")
        or hasattr(value, "__array_interface__")
    )


@functools.lru_cache(4096)
def _tail_of(text, dtypes):
    return Tail(Launcher(text, [], list(dtypes), []), text)


def _result_shapes(tail, operands):
    launcher = tail._launcher
    return _shapes.result_shapes(launcher.values(), launcher.result_values, launcher.is_elementwise, operands)


class Fused:
    """A function as one kernel. Called like the function, with arrays for tensors; numbers become run-time scalars,
    which compile nothing when they change, except where the function needs an integer's value (a dimension, range(n));
    everything else (None, text, tuples) is part of the trace. out= and dtype= as of Tail."""

    def __init__(self, function, dtype=None):
        functools.update_wrapper(self, function)
        self._function, self._dtype = function, dtype
        self._signature = inspect.signature(function)
        self._traces = collections.OrderedDict()  # by kinds of arguments
        self._fixed = frozenset()  # names of numbers that belong to the trace
        self._reads = None
        self._reads_device = False

    def __call__(self, *args: Any, out: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
        if any(type(one) is Proxy for one in (*args, *kwargs.values())):  # inside of another fused function
            if out is not None or dtype is not None or self._dtype is not None:
                raise Untraceable(f"{self!r} with out= or dtype= inside of another fused function")
            return self._function(*args, **kwargs)
        if _tail.compiling():
            from ._torch_ops import plain as unfused

            return unfused(self._function, args, kwargs, self._dtype if dtype is None else dtype, out)
        tail, operands, calls = self._tail_for(args, kwargs)
        try:
            return tail._launch(operands, out, self._dtype if dtype is None else dtype)
        except ValueError as problem:
            raise as_called(problem, calls) from None

    def __get__(self, instance, owner=None):
        """As a method: the object is the function's first argument."""
        return self if instance is None else _Method(self, instance)

    def tail(self, *args: Any, **kwargs: Any) -> Tail:
        """The Tail that such a call uses, for a look at its text, plan and source."""
        return self._tail_for(args, kwargs)[0]

    def plan(self, *args: Any, dtype: Any = None, arch: int | None = None, **kwargs: Any) -> Plan:
        """How such a call would run: Tail.plan of arrays."""
        tail, operands, calls = self._tail_for(args, kwargs)
        try:
            return tail._plan(operands[: len(tail.inputs)], dtype, arch)
        except ValueError as problem:
            raise as_called(problem, calls) from None

    def source(self, *args: Any, **kwargs: Any) -> str:
        """The CUDA source of the kernel for such a call."""
        return self.plan(*args, **kwargs).source

    def __reduce__(self):
        """As functions are copied and pickled: by name, where the module's name is this one's."""
        found = sys.modules.get(self.__module__)
        for name in self.__qualname__.split("."):
            found = getattr(found, name, None)
        return self.__qualname__ if found is self else (Fused, (self._function, self._dtype))

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"<epifuse.fuse of {getattr(self, '__qualname__', self._function)}{self._signature}>"

    def _tail_for(self, args, kwargs):
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        slots = list(self._slots(bound.arguments))
        if self._reads is None or not self._reads.hold():
            self._traces.clear()
            self._reads = Reads(self._function)
        while True:
            key = self._key(slots)
            traced = self._traces.get(key) if key is not None else None
            if traced is None:
                try:
                    traced = self._trace(bound, slots)
                except NeedsValue as needs:
                    self._fixed |= needs.names
                    continue
                if key is not None:
                    self._traces[self._key(slots)] = traced
                    while len(self._traces) > _MOST_TRACES:
                        self._traces.popitem(last=False)
            tail, operands, scalars, calls = traced
            return tail, [slots[i][1] for i in operands] + [float(slots[i][1]) for i in scalars], calls

    def _key(self, slots):
        """Of what a trace depends on; None where that may change without being seen: the trace is good for one call."""
        if self._reads.is_open:
            return None
        try:
            key = self._kinds(slots)
            hash(key)
        except (Open, TypeError):  # extents of fake tensors may be symbols, which have no hash
            return None
        return key

    def _kinds(self, slots):
        key = []
        for name, value in slots:
            if _is_number(value) and name not in self._fixed:
                key.append((name, type(value)))
            elif _is_array(value):
                device = str(getattr(value, "device", None)) if self._reads_device else None
                key.append((name, type(value), tuple(value.shape), value.dtype, device))
            else:
                key.append((name, plain(value)))
        return tuple(key)

    def _slots(self, arguments):
        """The arguments one by one: (name, value). Names of *args hold an index, which no parameter's name can."""
        for name, value in arguments.items():
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                yield from ((f"{name}[{i}]", one) for i, one in enumerate(value))
            elif kind is inspect.Parameter.VAR_KEYWORD:
                yield from ((f"{name}.{key}", one) for key, one in value.items())
            else:
                yield name, value

    def _trace(self, bound, slots):
        trace = Trace()
        stand_ins, operands, scalars = {}, [], []
        for i, (name, value) in enumerate(slots):
            if _is_number(value) and name not in self._fixed:
                stand_ins[name] = trace.number(name, value)
                scalars.append((stand_ins[name]._value.name, i))
            elif _is_array(value):
                stand_ins[name] = trace.tensor(name, value, i)
                operands.append((stand_ins[name]._value.name, i))
            else:
                stand_ins[name] = value
        results = self._run(bound, stand_ins)
        values = [self._checked(result, trace) for result in results]
        return self._finish(trace, values, operands, scalars)

    def _run(self, bound, stand_ins):
        given, named = [], {}
        for name, value in bound.arguments.items():
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                given += [stand_ins[f"{name}[{i}]"] for i in range(len(value))]
            elif kind is inspect.Parameter.VAR_KEYWORD:
                named.update({key: stand_ins[f"{name}.{key}"] for key in value})
            elif kind is inspect.Parameter.KEYWORD_ONLY:
                named[name] = stand_ins[name]
            else:
                given.append(stand_ins[name])
        results = self._function(*given, **named)
        return list(results) if isinstance(results, (tuple, list)) else [results]

    def _checked(self, result, trace):
        if isinstance(result, NoResult):
            result.anything  # says what it is
        if not isinstance(result, Proxy) or result._trace is not trace:
            raise Untraceable(f"{self!r} returns {type(result).__name__}, expected tensors")
        return result._value

    def _finish(self, trace, values, operands, scalars):
        """The tail of the operands that are used: others would take part in broadcasting. Its results have the types of
        the function's (but no float64 that the kernel does not compute in), and their shapes, or it is none."""
        if any(value.dtype is None for value in values):
            raise Untraceable(
                f"{self!r} has a result of a type that EpiFuse does not have: convert it, to int32 for example, "
                "or what it is computed from"
            )
        text = trace.chain.text(values, only_used=True)
        computed = [value.dtype if value.dtype != "f64" or trace.chain.is_wide else None for value in values]
        try:
            tail = _tail_of(text, tuple(computed))
        except ValueError as problem:
            raise as_called(problem, trace.calls) from None
        shapes = {name: shape for name, (_, shape) in trace.operands.items()}
        shapes = {name: shapes[name] for name in tail.inputs}
        for value, shape in zip(values, _result_shapes(tail, shapes)):
            found = tuple(map(_shapes.hint, shape))
            if found != tuple(value.shape):
                raise Untraceable(
                    f"{self!r} has a result of the shape {tuple(value.shape)}, where one kernel gives {found}: "
                    "results of a kernel without reductions all have the shape of its operands"
                )
        self._reads_device |= trace.reads_device
        operands, scalars = dict(operands), dict(scalars)
        return tail, [operands[name] for name in tail.inputs], [scalars[name] for name in tail.scalars], trace.calls


class _Method:
    """A fused function as a method of an object."""

    def __init__(self, fused, instance):
        self._fused, self._instance = fused, instance
        self.__doc__, self.__name__ = fused.__doc__, getattr(fused, "__name__", "fused")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._fused(self._instance, *args, **kwargs)

    def tail(self, *args: Any, **kwargs: Any) -> Tail:
        return self._fused.tail(self._instance, *args, **kwargs)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        return self._fused.plan(self._instance, *args, **kwargs)

    def source(self, *args: Any, **kwargs: Any) -> str:
        return self._fused.source(self._instance, *args, **kwargs)

    def __repr__(self):
        return f"{self._fused!r} of {type(self._instance).__qualname__}"


def fuse(function: Callable | None = None, *, dtype: Any = None) -> Any:
    """Makes one kernel of a function of tensors.

        @epifuse.fuse
        def tail(x, bias, alpha: float):
            return F.gelu(x + bias) * alpha

        y = tail(conv, bias, 0.5)

    The function runs on stand-ins, once per kind of arguments (their types, shapes, and the values of those that are
    neither arrays nor numbers): Python's operators, functions of torch and torch.nn.functional, NumPy's functions, and
    methods such as x.sigmoid(). dtype= is the type of new results. Raises Untraceable (a TypeError) that names the
    operation, where a kernel would not do exactly what the function does; the library's own error for arguments that
    it refuses; ValueError for a chain that cannot be one kernel.
    """
    if function is None:
        return functools.partial(fuse, dtype=dtype)
    if "torch" in sys.modules:
        from . import _torch_ops  # noqa: F401  so that torch.compile's tracer is known
    return Fused(function, dtype)
