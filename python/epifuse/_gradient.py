"""The gradient of a chain: a tail for the backward pass, and the forward pass with what that one needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

from ._arrays import dtype_name, spec
from ._core import Launcher
from ._core import gradient as _gradient
from ._tail import Tail, compile


@dataclass(frozen=True)
class GradientOperand:
    """Where an operand of the backward tail comes from.

    name    in `backward.inputs`: "dout" for the gradient of "out"
    source  "gradient" of a result; "result" or "saved": what the forward tail returned; "operand" of the forward tail; "shape":
            the same, but its elements are not read, so that any array of that shape will do
    index   gradient, result, saved: position among the forward tail's results; operand, shape: among its inputs
    """

    name: str
    source: str
    index: int


@dataclass(frozen=True)
class Gradient:
    """What `gradient` returns: two tails and what connects them. What `forward` saves has the type that it computes in, f32 or f64
    (truth values bool), unless dtype= of a call names a type for each result."""

    forward: Tail
    backward: Tail
    operands: tuple[GradientOperand, ...]
    saved: tuple[str, ...]
    wrt: tuple[str, ...]

    def backward_arrays(self, inputs: Sequence[Any], results: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
        """The arrays that `backward` takes, in its order. `inputs`: those of the forward call, in the order of
        `forward.inputs`; `results`: all that it returned, saved ones too; `gradients`: one per result of the chain (None
        for those that backward does not take). ValueError where an array is missing, and for an operand of integers or
        truth values."""
        self.backward_dtypes(inputs)  # says which operand has no gradient
        given = {"inputs": inputs, "results": results, "gradients": gradients}
        return [self._array(operand, given) for operand in self.operands]

    def _array(self, operand: GradientOperand, given: dict[str, Sequence[Any]]) -> Any:
        name = {"gradient": "gradients", "result": "results", "saved": "results"}.get(operand.source, "inputs")
        arrays, names = given[name], self._names(name)
        if operand.index >= len(arrays):
            raise ValueError(_too_few(name, len(arrays), names))
        if arrays[operand.index] is None:
            raise ValueError(
                f"{name} has None for '{names[operand.index]}', which the backward pass reads: expected an array"
            )
        return arrays[operand.index]

    def _names(self, name: str) -> tuple[str, ...]:
        """Of what backward_arrays takes under that name."""
        results = tuple(self.forward.results)
        return {
            "inputs": tuple(self.forward.inputs),
            "results": results,
            "gradients": results[: len(results) - len(self.saved)],
        }[name]

    def backward_dtypes(self, inputs: Sequence[Any]) -> list[str]:
        """The types of the gradients, which are those of the operands: `backward`'s `dtype`. Its own default follows
        from the arrays that it reads, of which the operand need not be one. ValueError for an operand of integers or
        truth values."""
        names = self._names("inputs")
        places = [names.index(name) for name in self.wrt]
        if max(places) >= len(inputs):
            raise ValueError(_too_few("inputs", len(inputs), names))
        dtypes = [_dtype_of(inputs[place]) for place in places]
        for name, dtype in zip(self.wrt, dtypes):
            if dtype[0] not in "fb" or dtype == "bool":
                raise ValueError(
                    f"operand '{name}' is {dtype}: integers and truth values have no gradient; pass it as floats, or take "
                    "the gradient with respect to other operands"
                )
        return dtypes


def _dtype_of(array: Any) -> str:
    return spec(array)[0] if isinstance(array, str) else dtype_name(array.dtype)


def _too_few(name: str, count: int, names: Sequence[str]) -> str:
    found = f"{count} array{'' if count == 1 else 's'}"
    return f"{name} has {found}; expected {len(names)}, in this order: {', '.join(names)}"


def gradient(tail: Tail, wrt: str | Sequence[str], *, overwritten: Sequence[str] = ()) -> Gradient:
    """The gradient of `tail` with respect to the operands named in `wrt` (docs/guide/training.md).

    overwritten  operands that the forward pass writes results over: backward does not read them

    Raises ValueError for a name that is no operand, where no path of operations with a derivative leads from it to a result, and
    where backward would need an overwritten operand.
    """
    if not isinstance(tail, Tail):
        raise TypeError(f"gradient takes a tail, found {type(tail).__name__}; epifuse.compile and epifuse.fuse make them")
    names = [wrt] if isinstance(wrt, str) else list(wrt)
    found = _gradient(tail._source, list(tail.scalars), names, list(overwritten))
    backward = compile(found["backward"])
    results, saved = Launcher(found["forward"]).results, found["saved"]
    own = len(results) - saved
    return Gradient(
        Tail(Launcher(found["forward"], [], [*tail.dtypes[:own], *["compute"] * saved], [])),
        backward,
        tuple(GradientOperand(*operand) for operand in found["operands"]),
        tuple(results[own:]),
        tuple(names),
    )
