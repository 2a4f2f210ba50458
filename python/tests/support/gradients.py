"""Gradients of chains beside those of PyTorch's autograd. `python python/tests/support/gradients.py tests/reports/gradients.json`
writes the report: every operation, reduction and composite in four types, 5250 random chains in f64, 550 backward passes as
emitted text, and losses of 200 steps of training. test_gradient.py, test_training.py and tests/emitted make the same comparisons.
`./dev build ci emitted_test` builds what runs emitted text."""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
from typing import Any, Callable, NamedTuple

import torch
from chain_functions import run_chain
from gradient_cases import cases
from losses import MODELS, PRODUCERS, STEPS, losses
from tails import as_written

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


class Passes(NamedTuple):
    """What a chain and PyTorch make of the same operands and gradients: results, and gradients by operand."""

    found: list[torch.Tensor]
    expected: list[torch.Tensor]
    got: list[torch.Tensor]
    want: list[torch.Tensor]
    names: list[str]
    wrt: list[str]
    backward: str


def both_passes(
    text: str, operands: dict[str, torch.Tensor], wrt: list[str] | None = None, seed: int = 0, chain: str = "", oracle: torch.dtype | None = None
) -> Passes:
    """`chain`: the same as `text` where the language writes it otherwise. `oracle`: the type in which PyTorch computes."""
    tail = as_written(chain or text)
    wrt = wrt or list(tail.inputs)
    gradient = epifuse.gradient(tail, wrt)
    inputs = [operands[name] for name in tail.inputs]
    found = _listed(gradient.forward(*inputs))

    leaves = {name: x.to(oracle or x.dtype).clone().requires_grad_(name in wrt) for name, x in operands.items()}
    expected = run_chain(text, leaves)
    if "axis" not in tail.text and len(expected) == len(found):  # pointwise chains write results in the shape of all operands
        expected = [other.expand(one.shape) if other.dim() <= one.dim() else other for one, other in zip(found, expected)]
    weights = weights_of(expected, seed, inputs[0].dtype)
    want = autograd(expected, [leaves[name] for name in wrt], weights)

    arrays = gradient.backward_arrays(inputs, found, weights)
    got = _listed(gradient.backward(*arrays, dtype=gradient.backward_dtypes(inputs)))
    return Passes(found, [one.detach() for one in expected], got, want, list(tail.results), wrt, gradient.backward.text)


def weights_of(results: list[torch.Tensor], seed: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Gradients of the results."""
    generator = torch.Generator().manual_seed(seed + 1)
    return [torch.randn(result.shape, generator=generator, dtype=torch.float64).to(dtype) for result in results]


def autograd(results: list[torch.Tensor], leaves: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
    reached = [(result, w.to(result.dtype)) for result, w in zip(results, weights) if result.requires_grad]
    found = torch.autograd.grad([r for r, _ in reached], leaves, [w for _, w in reached], allow_unused=True)
    return [torch.zeros_like(leaf) if one is None else one for leaf, one in zip(leaves, found)]


def _listed(results: Any) -> list[torch.Tensor]:
    return list(results) if isinstance(results, tuple) else [results]


def check(text: str, operands: dict[str, torch.Tensor], wrt: list[str] | None = None, seed: int = 0, chain: str = "") -> str | None:
    """What differs from PyTorch, or None."""
    both = both_passes(text, operands, wrt, seed, chain)
    for name, one, other in zip(both.names, both.found, both.expected):
        if difference(one.double(), other.double()) > TOLERANCE:
            return f"{text}: the result {name} is {one}, PyTorch's {other}"
    for name, one, other in zip(both.wrt, both.got, both.want):
        if one.shape != other.shape:
            return f"{text}: the gradient of {name} has shape {tuple(one.shape)}, expected {tuple(other.shape)}"
        if difference(one, other) > TOLERANCE:
            return f"{text}: d{name} is {one.tolist()}, PyTorch's {other.tolist()}; backward: {both.backward}"
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

ACTIVATIONS = """abs square exp expm1 sin cos tanh erf relu relu6 selu silu sigmoid logsigmoid hardsigmoid hardswish mish softplus
                 softsign tanhshrink gelu leaky_relu elu celu floor sign""".split()
UNARY = [*(f"{name}({{}})" for name in ACTIVATIONS), "clamp({}, -0.5, 0.8)", "clamp({}, min=0.1)"]
POSITIVE = "sqrt rsqrt reciprocal log log1p log2".split()
BINARY = ["({} + {})", "({} - {})", "({} * {})", "minimum({}, {})", "maximum({}, {})", "({} / (1 + abs({})))"]
BINARY += ["((0.5 + abs({})) ** tanh({}))", "fmod({}, 0.5 + abs({}))", "remainder({}, 0.5 + abs({}))"]
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
        if shape and kind < 0.06:
            self._view(a, shape)
        elif kind < 0.35:
            self._add(self.random.choice(UNARY).format(a), shape)
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


    def _view(self, a: str, shape: tuple[int, ...]) -> None:
        axis = self.random.randrange(len(shape))
        extent = shape[axis]
        start, step = self.random.randrange(extent), self.random.choice([1, 2])
        items = ["::" if d != axis else f"{start}::{step}" for d in range(len(shape))]
        padding = (0, 0) * (len(shape) - 1 - axis) + (1, 2)
        order = tuple(self.random.sample(range(len(shape)), len(shape)))
        views = {
            f"{a}[{', '.join(items)}]": {axis: -(-(extent - start) // step)},
            f"pad({a}, {padding})": {axis: extent + 3},
            f"flip({a}, ({axis},))": {},
            f"roll({a}, {start + 1}, {axis})": {},
            f"permute({a}, {order})": {d: shape[one] for d, one in enumerate(order)},
        }
        text, changed = self.random.choice(list(views.items()))
        self._add(text, tuple(changed.get(d, n) for d, n in enumerate(shape)))


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
    tail = as_written(drawn.text)
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


# ---- the report

LOW = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
MOST_ULPS = 8.0  # of the largest element, where PyTorch's own gradient is no further from that in f64


def precision(text: str, operands: dict[str, torch.Tensor], dtype: torch.dtype) -> dict[str, float | None]:
    """How far the gradients of a tail under autograd are from PyTorch's in f64 of the same operands, in units in the last place of the largest element.
    Beside it PyTorch's own in that type, which it may not have."""
    given = {name: x.to(dtype) for name, x in operands.items()}
    tail = as_written(text)
    wide = {name: x.double().requires_grad_() for name, x in given.items()}
    expected = run_chain(text, wide)
    results = _listed(tail(*(given[name] for name in tail.inputs)))
    if "axis" not in tail.text and len(expected) == len(results):
        expected = [other.expand(one.shape) if other.dim() <= one.dim() else other for one, other in zip(results, expected)]
    weights = weights_of(expected, 0, dtype)
    exact = autograd(expected, [wide[name] for name in tail.inputs], weights)

    def ulps(run: Callable[[dict[str, torch.Tensor]], list[torch.Tensor]]) -> float:
        leaves = {name: x.clone().requires_grad_() for name, x in given.items()}
        found = [one.expand(other.shape) for one, other in zip(run(leaves), expected)]
        gradients = autograd(found, [leaves[name] for name in tail.inputs], weights)
        errors = [difference(one.double(), other) for one, other in zip(gradients, exact)]
        return float(f"{max(errors) / torch.finfo(dtype).eps:.3g}")

    try:
        own = ulps(lambda leaves: run_chain(text, leaves))
    except (RuntimeError, NotImplementedError):
        own = None
    return {"epifuse": ulps(lambda leaves: _listed(tail(*(leaves[name] for name in tail.inputs)))), "pytorch": own}


def passes_gradcheck(text: str, operands: dict[str, torch.Tensor]) -> bool:
    """torch.autograd.gradcheck of the tail itself: its backward pass beside differences of its forward pass. Whole numbers are given to
    what rounds to f32, where small differences would be lost."""
    tail = as_written(text)
    inputs = [operands[name].clone().requires_grad_() for name in tail.inputs]
    are_whole = all(bool((x == x.round()).all()) for x in operands.values())
    return torch.autograd.gradcheck(tail, inputs, eps=2**-7 if are_whole else 1e-6, raise_exception=False)


def case_report(text: str, operands: dict[str, torch.Tensor]) -> dict[str, Any]:
    both = both_passes(text, operands)
    worst = max(difference(one, other) for one, other in zip(both.got, both.want))
    report: dict[str, Any] = {"f64": float(f"{worst:.3g}"), "gradcheck": passes_gradcheck(text, operands)}
    return report | {name: precision(text, operands, dtype) for name, dtype in LOW.items()}


def is_wrong(report: dict[str, Any]) -> bool:
    beyond = [one["epifuse"] > max(MOST_ULPS, one["pytorch"] or 0) for name, one in report.items() if name in LOW]
    return report["f64"] > TOLERANCE or not report["gradcheck"] or any(beyond)


def commit() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip() or "unknown"


ROOT = pathlib.Path(__file__).resolve().parents[3]
EMITTED = ["EmittedText.RandomGradientsAgreeWithTheOracle", "EmittedGradients.*"]
COUNTS = re.compile(r"(?P<cases>\d+) cases, (?P<kernels>\d+) kernels .*, (?P<results>\d+) results: (?P<judged>.*); seed (?P<seed>\d+)")


def emitted(binary: pathlib.Path) -> dict[str, Any]:
    """Backward passes as emitted text, by the C++ test that runs them."""
    if not binary.exists():
        sys.exit(f"{binary} is missing: ./dev build ci emitted_test")
    done = subprocess.run([binary, f"--gtest_filter={':'.join(EMITTED)}"], capture_output=True, text=True, check=False)
    counts = COUNTS.search(done.stdout)
    if counts is None:
        sys.exit(done.stdout + done.stderr)
    numbers = {name: int(one) for name, one in counts.groupdict().items() if name != "judged"}
    failed = re.findall(r"^\[  FAILED  \] (\S+)", done.stdout, re.M)
    return {"tests": EMITTED, **numbers, "judged": counts["judged"], "failed": sorted(set(failed))}


def training() -> dict[str, Any]:
    """How far the losses are from those of a run in f64, of what rounding does to eager's own."""
    torch.set_num_threads(1)  # small tensors are slower with more
    found: dict[str, Any] = {"steps": STEPS, "most": MOST_ROUNDINGS}
    for name in MODELS:
        for producers in PRODUCERS:
            torch._dynamo.reset()
            one = losses(name, producers)
            exact = [float(f"{loss:.4g}") for loss in (one.exact[0], one.exact[-1])]
            kernels = {report.phase: len(report.kernels) for report in one.reports}
            found[f"{name}, {producers}"] = {"loss": exact, "distance": float(f"{one.distance():.3g}"), "kernels": kernels}
    return found


MOST_ROUNDINGS = 8.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report")
    parser.add_argument("--count", type=int, default=5250)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--emitted", type=pathlib.Path, default=ROOT / "build-ci/tests/emitted/emitted_test")
    options = parser.parse_args()
    groups: dict[str, dict[str, Any]] = {}
    wrong = []
    for group, text, shapes, values in cases():
        found = case_report(text, operands_of(shapes, 1, values))
        groups.setdefault(group, {})[text] = found
        if is_wrong(found):
            wrong.append(text)
    outcomes: dict[str, int] = {}
    differ = []
    for seed in range(options.first, options.first + options.count):
        _, outcome = run_random(seed)
        if outcome.split(":")[0] in ("agrees", "no gradient", "forward", "backward"):
            outcomes[why(outcome)] = outcomes.get(why(outcome), 0) + 1
        else:
            differ.append({"seed": seed, "what": outcome})
    as_text, losses_of = emitted(options.emitted), training()
    far = [name for name, one in losses_of.items() if isinstance(one, dict) and one["distance"] > MOST_ROUNDINGS]
    report = {
        "command": "python python/tests/support/gradients.py tests/reports/gradients.json",
        "commit": commit(),
        "torch": torch.__version__,
        "tolerance": {"f64": TOLERANCE, "ulps": MOST_ULPS},
        "cases": {group: len(texts) for group, texts in groups.items()},
        "wrong": wrong,
        "random": {
            "seeds": [options.first, options.first + options.count - 1],
            "outcomes": dict(sorted(outcomes.items(), key=lambda item: -item[1])),
            "differ": differ,
        },
        "emitted": as_text,
        "training": losses_of,
        "gradients": groups,
    }
    with open(options.report, "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    print(report["cases"], f"{len(wrong)} wrong;", report["random"]["outcomes"], f"{len(differ)} differ;", as_text, losses_of)
    return 1 if differ or wrong or as_text["failed"] or far else 0


if __name__ == "__main__":
    sys.exit(main())
