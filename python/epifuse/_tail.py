"""Tail: a chain as a callable, and what can be seen of it. A thin face of _core.Launcher."""

from __future__ import annotations

import functools
import sys
from typing import Any, Sequence

from . import _draw
from ._arrays import dtype_name, dtype_names, spec
from ._core import Launcher, devices

# What a plan is made for where no GPU is: an H100, as in the library.
_DEFAULT_ARCHITECTURE = 90
_USUAL = (0, 0, 0.0)  # multiprocessors, bytes of the L2 cache and bandwidth: those of a usual device


def _never() -> bool:
    return False


# torch.compiler.is_compiling once PyTorch is there (_torch_ops).
compiling = _never


class Tail:
    """A chain of operations as one kernel. Made by `compile` or `fuse`; immutable, and safe to call from any thread.

    Calling it launches: arrays by name, `tail(x=conv, bias=b)`, and run-time scalars as numbers. The one operand that has no
    name may stand in front by position, `tail(conv, bias=b)`. Where the text states an order, `input x, bias; …`, all
    may: arrays in the order of `inputs`, then scalars in the order of `scalars`. Operands broadcast as in NumPy and may
    have any strides. All arrays lie on one device: a GPU, or the CPU.

    out=    an array, or a sequence with one per result, of exactly the result's shape; it may be an operand (in place),
            on a GPU one that is read only where it is written; any other overlap is refused. Without it results are new arrays of the first array's framework, on its
            current stream, laid out as the first operand of the same shape is.
    dtype=  the type of new results ("f16", torch.float16, numpy.float16), or a sequence with one per result. By default
            the type that PyTorch's promotion of the operands gives (float16 + float32: float32).

    On a GPU the call returns when the kernel is queued (with JAX's arrays: when it has run); the first call of a class
    of shapes and types compiles, some tens of milliseconds, without the GIL. On the CPU it returns with the result.

    PyTorch's autograd knows of a call with tensors that require grad (docs/guide/training.md).

    Raises TypeError for what is no array or number, ValueError for types, shapes, devices and overlaps that do not fit
    and for tensors that require grad where the chain has no gradient, epifuse.Error for what fails at run time.
    """

    __slots__ = ("_launcher", "_call", "_unordered", "_chain", "inputs", "scalars", "results", "dtypes", "text", "_source", "__weakref__")

    def __init__(self, launcher: Launcher, source: str | None = None) -> None:
        self._launcher = launcher
        self._call = launcher.call
        self._unordered = launcher.unordered
        self.inputs = tuple(launcher.inputs)
        self.scalars = tuple(launcher.scalars)
        self.results = tuple(launcher.results)
        # Our names of the types of the results: None where the operands decide, "compute" for what the chain computes in.
        self.dtypes = tuple(launcher.dtypes)
        self._chain = launcher.text  # of the operator under a tracer
        self.text = launcher.stated_text
        # As it was given, where functions still have their names: gradients of pools differ from those of what they are made of.
        self._source = self.text if source is None else source

    def __call__(self, *arrays: Any, out: Any = None, dtype: Any = None, **named: Any) -> Any:
        if compiling():
            from ._torch_ops import traced

            return traced(self, arrays, named, out, dtype)
        return self._call(arrays, named, out, self._types(dtype))

    def _launch(self, values: Sequence[Any], out: Any, dtype: Any) -> Any:
        """A call by those who have looked up the order: operands, then run-time scalars."""
        return self._launcher.launch(tuple(values), out, self._types(dtype))

    def prepare(self, *arrays: Any, out: Any = None, dtype: Any = None, **named: Any) -> None:
        """Compiles the kernel that such a call would launch (or loads it from the cache) and launches nothing: before
        the capture of a CUDA graph, say. Raises as a call does."""
        self._launcher.prepare(arrays, named, out, self._types(dtype))

    def plan(self, *arrays: Any, dtype: Any = None, arch: int | None = None, **named: Any) -> Plan:
        """How such a call would run. Arrays may be descriptions, "f16[1024,8192]". `arch`: 90 for sm_90; by default
        that of the first GPU, else 90. Needs no GPU."""
        return self._plan(self._operands(arrays, named), dtype, arch)

    def _plan(self, operands, dtype, arch):
        """Of operands in the order of `inputs`."""
        target = _target(arch)
        return Plan(self, self._launcher.inspect(operands, self._types(dtype), *target), target[0])

    def source(self, *arrays: Any, dtype: Any = None, arch: int | None = None, **named: Any) -> str:
        """The CUDA source of the kernel for such a call: one file that needs no header. Arguments as of plan()."""
        return self.plan(*arrays, dtype=dtype, arch=arch, **named).source

    def ptx(self, *arrays: Any, dtype: Any = None, arch: int | None = None, **named: Any) -> str:
        """The PTX of the kernel for such a call, by NVRTC. Arguments as of plan(); epifuse.Error where there is no
        NVRTC."""
        return self.plan(*arrays, dtype=dtype, arch=arch, **named).ptx()

    def _types(self, dtype):
        """The `dtype` of a call, a name per result. One type is that of all results but those whose type is "compute"."""
        if dtype is None or isinstance(dtype, (list, tuple)):
            return None if dtype is None else dtype_names(dtype, len(self.results))
        return [None if own == "compute" else one for own, one in zip(self.dtypes, dtype_names(dtype, len(self.results)))]

    def _by_name(self, arrays, named):
        """All arguments by name. Without a stated order the one operand that has no name stands first."""
        names = self.inputs + self.scalars
        if self._unordered is not None and arrays:
            names = tuple(name for name in names if name not in named)
            if sum(name in self.inputs for name in names) > 1:
                raise TypeError(self._unordered)
        return {**dict(zip(names, arrays)), **named}

    def _operands(self, arrays, named):
        unknown = [name for name in named if name not in self.inputs and name not in self.scalars]
        if unknown or len(arrays) > len(self.inputs):
            raise TypeError(
                f"the chain's tensors are {', '.join(self.inputs)}; found {len(arrays)} by position and "
                f"{', '.join(named) or 'none'} by name"
            )
        values = self._by_name(arrays, named)
        missing = [name for name in self.inputs if name not in values]
        if missing:
            raise TypeError(f"the operand '{missing[0]}' is missing; the chain takes: {', '.join(self.inputs)}")
        return [spec(value) if isinstance(value, str) else value for value in (values[name] for name in self.inputs)]

    def values(self) -> list[dict[str, Any]]:
        """The values of the chain in order, each a dictionary: `op`, `arguments` (positions in this list), and what the
        operation has."""
        return self._launcher.values()

    def __repr__(self) -> str:
        takes = ", ".join(self.inputs + tuple(f"{name}: number" for name in self.scalars))
        return f"<epifuse.Tail ({takes}) -> {', '.join(self.results)}: {self.text}>"

    def _repr_html_(self) -> str:
        return _draw.tail_html(self)

    def __reduce__(self):
        return _again, (self._source, self._launcher.dtypes, self.scalars)


class Plan:
    """How a call of a tail would run on a GPU. str() explains it; `summary` is the same as a dictionary; bytes are
    counted once per element."""

    def __init__(self, tail: Tail, inspection: Any, architecture: int) -> None:
        self.tail, self._inspection, self.architecture = tail, inspection, architecture
        self.summary = inspection.summary

    @property
    def source(self) -> str:
        """The CUDA source."""
        return self._inspection.source

    def ptx(self, arch: int | None = None) -> str:
        """PTX by NVRTC, for the plan's architecture or another."""
        return self._inspection.ptx(arch or self.architecture)

    def registers(self, arch: int | None = None) -> int:
        """Registers per thread of the kernel compiled by NVRTC."""
        return self._inspection.registers(arch or self.architecture)

    def text(self, bandwidth: float = 0.0) -> str:
        """The plan for people; `bandwidth` in bytes per second gives the time that the bytes need."""
        return self._inspection.plan_text(bandwidth, 0)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["summary"][name]
        except KeyError:
            raise AttributeError(
                f"a plan has no '{name}'; it has: {', '.join(self.__dict__.get('summary', ()))}"
            ) from None

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return _draw.plan_html(self)


def _again(text, dtypes, scalars):
    """A tail that was pickled or copied."""
    return Tail(Launcher(text, list(scalars), dtypes, []), text)


@functools.lru_cache(1)
def _first_gpu():
    found = devices()
    if not found:
        return (_DEFAULT_ARCHITECTURE, *_USUAL)
    return tuple(found[0][name] for name in ("architecture", "multiprocessors", "l2_bytes", "peak_bandwidth"))


def _target(arch):
    first = _first_gpu()
    return first if arch is None or arch == first[0] else (int(arch), *_USUAL)


def compile(text: str, scalars: Sequence[str] = (), *, dtype: Any = None) -> Tail:
    """The tail that `text` describes in the language of chains (docs/guide/language.md), such as "t = x + bias; return
    relu(t), t > 0".

    scalars  names of further run-time scalars, as if the text declared them ("scalar alpha; …"): numbers given at each
             call, which compile nothing
    dtype    the type of new results, or one per result; by default as at calls (Tail)

    Nothing is compiled for a GPU yet: kernels come with the first call of each class of shapes and types, and from the
    disk cache. Raises ValueError, with a caret under the column, for text that is no chain.
    """
    if not isinstance(text, str):
        raise TypeError(f"compile takes a chain as text, found {type(text).__name__}; epifuse.fuse takes functions")
    if isinstance(scalars, str):
        raise TypeError(f"scalars takes a sequence of names, found the text {scalars!r}")
    if "torch" in sys.modules:
        from . import _torch_ops  # noqa: F401  registers the operator, for torch.compile and torch.export
    dtypes = (
        []
        if dtype is None
        else [dtype_name(one) for one in dtype]
        if isinstance(dtype, (list, tuple))
        else [dtype_name(dtype)] * 64
    )
    return Tail(Launcher(text, list(scalars), dtypes, []), text)
