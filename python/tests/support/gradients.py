"""Gradients of chains beside those of PyTorch's autograd, in f64. `python python/tests/support/gradients.py --count 5000
tests/reports/gradients.json` makes random chains; test_gradient.py makes some."""

from __future__ import annotations

import argparse
import json
import random
import sys
from typing import Any

import torch
from chain_functions import run_chain

import epifuse

TOLERANCE = 1e-10  # of the largest element


def operands_of(shapes: dict[str, tuple[int, ...]], seed: int, values: str = "normal") -> dict[str, torch.Tensor]:
    """`values`: normal; positive; small (integers from -2 to 2: with ties and zeros)."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for name, shape in shapes.items():
        x = torch.randn(shape, generator=generator, dtype=torch.float64)
        if values == "positive":
            x = x.abs() + 0.25
        if values == "small":
            x = torch.randint(-2, 3, shape, generator=generator).double()
        made[name] = x
    return made


def check(text: str, operands: dict[str, torch.Tensor], wrt: list[str] | None = None, seed: int = 0, chain: str = "") -> str | None:
    """What differs from PyTorch, or None. `chain`: the same as `text` where the language writes it otherwise."""
    tail = epifuse.compile(chain or text)
    wrt = wrt or list(tail.inputs)
    gradient = epifuse.gradient(tail, wrt)
    inputs = [operands[name] for name in tail.inputs]
    found = gradient.forward(*inputs)
    found = list(found) if isinstance(found, tuple) else [found]

    leaves = {name: x.clone().requires_grad_(name in wrt) for name, x in operands.items()}
    expected = run_chain(text, leaves)
    if "axis" not in tail.text and len(expected) == len(found):  # pointwise chains write results in the shape of all operands
        expected = [other.expand(one.shape) if other.dim() <= one.dim() else other for one, other in zip(found, expected)]
    generator = torch.Generator().manual_seed(seed + 1)
    weights = [torch.randn(result.shape, generator=generator, dtype=torch.float64) for result in expected]
    reached = [(result, w) for result, w in zip(expected, weights) if result.requires_grad]
    want = torch.autograd.grad([r for r, _ in reached], [leaves[n] for n in wrt], [w for _, w in reached], allow_unused=True)

    for name, one, other in zip(tail.results, found, expected):
        if difference(one.double(), other.detach().double()) > TOLERANCE:
            return f"{text}: the result {name} is {one}, PyTorch's {other}"
    arrays = gradient.backward_arrays(inputs, found, weights)
    got = gradient.backward(*arrays)
    got = list(got) if isinstance(got, tuple) else [got]
    for name, one, other in zip(wrt, got, want):
        other = torch.zeros_like(operands[name]) if other is None else other
        if one.shape != other.shape:
            return f"{text}: the gradient of {name} has shape {tuple(one.shape)}, expected {tuple(other.shape)}"
        if difference(one, other) > TOLERANCE:
            return f"{text}: d{name} is {one.tolist()}, PyTorch's {other.tolist()}; backward: {gradient.backward.text}"
    return None


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Of the largest element; infinite where one is NaN or infinite and the other is not the same."""
    if found.shape != expected.shape:
        return float("inf")
    same = (found == expected) | (found.isnan() & expected.isnan())
    if bool(same.all()):
        return 0.0
    error = (found - expected)[~same].abs().max().item()
    finite = expected[expected.isfinite()]
    scale = max(1.0, finite.abs().max().item()) if finite.numel() else 1.0
    return error / scale if error == error else float("inf")


# ---- random chains

UNARY = """abs square exp expm1 sin cos tanh erf relu relu6 selu silu sigmoid logsigmoid hardsigmoid hardswish mish softplus
           softsign tanhshrink gelu leaky_relu elu celu floor sign""".split()
POSITIVE = "sqrt rsqrt reciprocal log log1p log2".split()
BINARY = ["({} + {})", "({} - {})", "({} * {})", "minimum({}, {})", "maximum({}, {})", "({} / (1 + abs({})))"]
REDUCTIONS = "sum mean amax amin var std logsumexp prod".split()
NORMS = ["softmax({}, {})", "log_softmax({}, {})", "layer_norm({}, axis={})", "rms_norm({}, axis={})"]


class Drawn:
    """A chain of one to some operations over operands of broadcast shapes, each a statement."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        rank = self.random.choice([1, 2, 2, 3, 3])
        self.shape = tuple(self.random.choice([1, 2, 3, 4, 5]) for _ in range(rank))
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.values: list[tuple[str, tuple[int, ...]]] = []
        self.lines: list[str] = []
        for name in "xyz"[: self.random.randint(1, 3)]:
            shape = self.shape if name == "x" else self._broadcast()
            self.shapes[name] = shape
            self.values.append((name, shape))
        for _ in range(self.random.randint(1, 7)):
            self._step()
        results = [self.values[-1][0]]
        if self.random.random() < 0.3:
            results.append(self.random.choice(self.values[len(self.shapes) :])[0])
        results = list(dict.fromkeys(results))
        used = "; ".join(self.lines + [", ".join(results)])
        self.text = "; ".join(self.lines + ["return " + ", ".join(results)])
        self.wrt = [name for name in self.shapes if any(name == word for word in _words(used))]

    def _broadcast(self) -> tuple[int, ...]:
        shape = tuple(1 if self.random.random() < 0.4 else extent for extent in self.shape)
        return shape[self.random.randint(0, len(shape)) :] if self.random.random() < 0.4 else shape

    def _pick(self) -> tuple[str, tuple[int, ...]]:
        return self.values[-1] if self.random.random() < 0.6 else self.random.choice(self.values)

    def _add(self, expression: str, shape: tuple[int, ...]) -> None:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        self.values.append((name, shape))

    def _step(self) -> None:
        kind = self.random.random()
        a, shape = self._pick()
        if kind < 0.35:
            self._add(f"{self.random.choice(UNARY)}({a})", shape)
        elif kind < 0.42:
            self._add(f"{self.random.choice(POSITIVE)}(0.5 + abs({a}))", shape)
        elif kind < 0.7:
            b, other = self._pick()
            try:
                joint = tuple(torch.broadcast_shapes(shape, other))
            except RuntimeError:
                return self._step()
            self._add(self.random.choice(BINARY).format(a, b), joint)
        elif kind < 0.78:
            b, other = self._pick()
            if shape != other:
                return self._step()
            self._add(f"where({a} > 0.1, {a} * {b}, {b})", shape)
        elif shape and kind < 0.9:
            axis = self.random.randrange(len(shape))
            keepdim = self.random.random() < 0.6
            name = self.random.choice(REDUCTIONS)
            if name in ("var", "std") and shape[axis] == 1:
                name = "mean"
            reduced = tuple(1 if d == axis else n for d, n in enumerate(shape) if keepdim or d != axis)
            self._add(f"{name}({a}, axis={axis}{', keepdim=true' if keepdim else ''})", reduced)
        elif shape:
            axis = self.random.randrange(len(shape))
            self._add(self.random.choice(NORMS).format(a, axis), shape)
        else:
            self._add(f"tanh({a})", shape)


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


def reachable(tail: Any) -> list[str]:
    """The operands from which a path of operations with a derivative leads to a result."""
    names = []
    for name in tail.inputs:
        try:
            epifuse.gradient(tail, name)
        except ValueError:
            continue
        names.append(name)
    return names


def run_random(seed: int) -> tuple[str, str]:
    """The text of the chain, and: "agrees"; "no gradient"; "forward: …" or "backward: …", why that pass is refused; or what differs."""
    drawn = Drawn(seed)
    operands = operands_of(drawn.shapes, seed)
    tail = epifuse.compile(drawn.text)
    wrt = reachable(tail)
    if not wrt:
        return drawn.text, "no gradient"
    try:
        tail(*(operands[name] for name in tail.inputs))
    except ValueError as error:
        return drawn.text, f"forward: {error}"
    try:
        return drawn.text, check(drawn.text, operands, wrt, seed) or "agrees"
    except ValueError as error:
        return drawn.text, f"backward: {error}"


def why(outcome: str) -> str:
    """A reason without what is of one chain."""
    for words in ("no value has all of its dimensions", "would be needed along two of its dimensions at once", "more than"):
        if words in outcome:
            return f"{outcome.split(':')[0]}: {words}"
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    outcomes: dict[str, int] = {}
    differ = []
    for seed in range(options.first, options.first + options.count):
        _, outcome = run_random(seed)
        if outcome.split(":")[0] in ("agrees", "no gradient", "forward", "backward"):
            outcomes[why(outcome)] = outcomes.get(why(outcome), 0) + 1
        else:
            differ.append({"seed": seed, "what": outcome})
    report = {
        "chains": options.count,
        "torch": torch.__version__,
        "tolerance": TOLERANCE,
        "outcomes": dict(sorted(outcomes.items(), key=lambda item: -item[1])),
        "differ": differ,
    }
    with open(options.report, "w") as file:
        json.dump(report, file, indent=2)
        file.write("\n")
    print(report["outcomes"], f"{len(differ)} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
