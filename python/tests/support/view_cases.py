"""Views, windows, indices and positions beside PyTorch: drawn shapes, arguments and types, results and gradients. Hypothesis draws the cases and
shrinks what fails.

`python python/tests/support/view_cases.py --cases 20000 --seed 1 tests/reports/views.json` draws so many, prints the seed, and writes the report; with
`--emitted build-ci/tests/emitted/emitted_test` also of 2000 or more as emitted text (view_cases_emitted.py);
test_view_cases.py draws some of each operation."""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Callable

import hypothesis
import torch
import torch.nn.functional as F
from gradients import difference
from hypothesis import strategies as st
from tails import as_written

import epifuse

Draw = Callable[[st.SearchStrategy], Any]
Function = Callable[..., torch.Tensor]

# Units in the last place, of the largest element: a mean of a window has some roundings.
TOLERANCES = {torch.float64: 1e-10, torch.float32: 4e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}

# Reasons for which a chain or its gradient may be refused, as docs/guide/views.md lists them.
REASONS = {
    "index": "adds up elements wherever indices are equal",
    "from the back": "where slices count from the back",
    "several kernels": "cannot be one kernel",
    "read as one": "is needed as one here",
    "dimensions": "more than 8 different dimensions",
    "unfold": "adds up windows of more than 64 elements",
    "fewer chunks": "does not exist: dimension",  # the gradient names each chunk, of which there are fewer than asked for
}


@dataclass
class Case:
    """The text of a chain, PyTorch's function of the same operands, and these."""

    text: str
    function: Function
    operands: dict[str, torch.Tensor]
    wrt: list[str] = field(default_factory=lambda: ["x"])

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name}={str(one.dtype).removeprefix('torch.')}{list(one.shape)}" for name, one in self.operands.items()
        )
        return f"{self.text}   {shapes}"


def listed(numbers: Any) -> str:
    return f"({', '.join(map(str, numbers))}{',' if len(numbers) == 1 else ''})"


def numbers(draw: Draw, shape: list[int], dtype: torch.dtype, most: int = 4) -> torch.Tensor:
    """Small halves, with ties and zeros: exact in each type. Of a seed, so that a case is small."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 3)))
    return (torch.randint(-2 * most, 2 * most + 1, shape, generator=generator) / 2).to(dtype)


def a_shape(draw: Draw, least: int = 1, most: int = 4, extent: int = 7) -> list[int]:
    return draw(st.lists(st.integers(1, extent), min_size=least, max_size=most))


def a_dim(draw: Draw, shape: list[int]) -> int:
    return draw(st.integers(-len(shape), len(shape) - 1))


# ---- slices and orders


def slices(draw: Draw, dtype: torch.dtype) -> Case:
    shape = a_shape(draw)
    items, texts = [], []
    for extent in shape[: draw(st.integers(1, len(shape)))]:
        if draw(st.integers(0, 4)) == 0:
            at = draw(st.integers(-extent, extent - 1))
            items.append(at)
            texts.append(str(at))
            continue
        bounds = [draw(st.none() | st.integers(-extent - 1, extent + 1)) for _ in range(2)]
        step = draw(st.integers(1, 3))
        items.append(slice(*bounds, step))
        texts.append(":".join("" if one is None else str(one) for one in bounds) + ("" if step == 1 else f":{step}"))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(items)))
        items.insert(at, None)
        texts.insert(at, "None")
    return Case(f"x[{', '.join(texts)}]", lambda x: x[tuple(items)], {"x": numbers(draw, shape, dtype)})


def orders(draw: Draw, dtype: torch.dtype) -> Case:
    shape = a_shape(draw)
    rank = len(shape)
    dim, other = a_dim(draw, shape), a_dim(draw, shape)
    order = draw(st.permutations(range(rank)))
    dims = sorted(draw(st.sets(st.integers(0, rank - 1), min_size=1)))
    shifts = [draw(st.integers(-9, 9)) for _ in dims]
    at = draw(st.integers(-rank - 1, rank))
    text, function = draw(
        st.sampled_from(
            [
                (f"permute(x, {listed(order)})", lambda x: x.permute(order)),
                (f"transpose(x, {dim}, {other})", lambda x: x.transpose(dim, other)),
                (f"flip(x, {listed(dims)})", lambda x: x.flip(dims)),
                (f"roll(x, {listed(shifts)}, {listed(dims)})", lambda x: x.roll(shifts, dims)),
                (f"unsqueeze(x, {at})", lambda x: x.unsqueeze(at)),
                ("reshape(x, (-1,))", lambda x: x.reshape(-1)),
                (f"expand(x, (2, {', '.join(['-1'] * rank)}))", lambda x: x.expand(2, *[-1] * rank)),
            ]
        )
    )
    return Case(text, function, {"x": numbers(draw, shape, dtype)})


def divisions(draw: Draw, dtype: torch.dtype) -> Case:
    shape = a_shape(draw)
    dim = a_dim(draw, shape)
    extent = shape[dim]
    size = draw(st.integers(1, 4))
    start = draw(st.integers(0, extent - 1))
    length = draw(st.integers(1, extent - start))
    of_split, of_chunk = torch.empty(extent).split(size), torch.empty(extent).chunk(size)
    which, chunk = draw(st.integers(0, len(of_split) - 1)), draw(st.integers(0, len(of_chunk) - 1))
    text, function = draw(
        st.sampled_from(
            [
                (f"split(x, {size}, {dim})[{which}]", lambda x: x.split(size, dim)[which]),
                (f"chunk(x, {size}, {dim})[{chunk}]", lambda x: x.chunk(size, dim)[chunk]),
                (f"narrow(x, {dim}, {start}, {length})", lambda x: x.narrow(dim, start, length)),
                (f"select(x, {dim}, {start})", lambda x: x.select(dim, start)),
            ]
        )
    )
    return Case(text, function, {"x": numbers(draw, shape, dtype)})


def paddings(draw: Draw, dtype: torch.dtype) -> Case:
    shape = a_shape(draw)
    sizes = [draw(st.integers(0, 3)) for _ in range(2 * draw(st.integers(1, len(shape))))]
    value = draw(st.sampled_from([0, 2, -1.5]))
    return Case(
        f"pad(x, {listed(sizes)}, value={value})",
        lambda x: F.pad(x, sizes, value=value),
        {"x": numbers(draw, shape, dtype)},
    )


def joined(draw: Draw, dtype: torch.dtype) -> Case:
    shape = a_shape(draw)
    dim = a_dim(draw, shape)
    longer = list(shape)
    longer[dim] = draw(st.integers(1, 7))
    operands = {"x": numbers(draw, shape, dtype), "y": numbers(draw, longer, dtype)}
    if draw(st.booleans()):
        operands["y"] = numbers(draw, shape, dtype)
        return Case(f"stack((x, y), {dim})", lambda x, y: torch.stack((x, y), dim), operands, ["x"])
    return Case(f"cat((x, y), {dim})", lambda x, y: torch.cat((x, y), dim), operands, [draw(st.sampled_from("xy"))])


def pixels(draw: Draw, dtype: torch.dtype) -> Case:
    n, c, h, w = (draw(st.integers(1, 4)) for _ in range(4))
    r = draw(st.integers(1, 3))
    text, function, shape = draw(
        st.sampled_from(
            [
                (f"pixel_shuffle(x, {r})", lambda x: F.pixel_shuffle(x, r), [n, c * r * r, h, w]),
                (f"pixel_unshuffle(x, {r})", lambda x: F.pixel_unshuffle(x, r), [n, c, h * r, w * r]),
                (f"upsample_nearest2d(x, {r})", lambda x: F.interpolate(x, scale_factor=r), [n, c, h, w]),
                (f"upsample_nearest1d(x, {r})", lambda x: F.interpolate(x, scale_factor=r), [n, c, w]),
            ]
        )
    )
    return Case(text, function, {"x": numbers(draw, shape, dtype)})


# ---- windows


@dataclass
class Windows:
    shape: list[int]
    size: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    ceil_mode: bool


def windows(draw: Draw, rank: int, dilated: bool = False, leaves: bool = True) -> Windows:
    size = [draw(st.integers(1, 4 if rank < 3 else 2)) for _ in range(rank)]
    stride = [draw(st.integers(1, 4)) for _ in range(rank)]
    padding = [draw(st.integers(0, one // 2)) if leaves else 0 for one in size]
    dilation = [draw(st.integers(1, 2)) if dilated else 1 for _ in range(rank)]
    # Each window has an element of the tensor: PyTorch's backward writes beside the tensor where one has none.
    least = [max(d * (k - 1) + 1 - 2 * p, d) for k, p, d in zip(size, padding, dilation)]
    inner = [draw(st.integers(one, one + 7)) for one in least]
    return Windows([*a_shape(draw, 2, 2, 3), *inner], size, stride, padding, dilation, leaves and draw(st.booleans()))


def max_pools(draw: Draw, dtype: torch.dtype) -> Case:
    rank = draw(st.integers(1, 3))
    w = windows(draw, rank, dilated=True)
    numbers_of = ", ".join(map(listed, (w.size, w.stride, w.padding, w.dilation)))
    pool = getattr(F, f"max_pool{rank}d")
    return Case(
        f"max_pool{rank}d(x, {numbers_of}, ceil_mode={str(w.ceil_mode).lower()})",
        lambda x: pool(x, w.size, w.stride, w.padding, w.dilation, w.ceil_mode),
        {"x": numbers(draw, w.shape, dtype)},
    )


def avg_pools(draw: Draw, dtype: torch.dtype) -> Case:
    rank = draw(st.integers(1, 3))
    w = windows(draw, rank)
    w.shape[2:] = map(max, w.shape[2:], w.size)  # PyTorch takes no smaller ones, though they are padded
    counts = draw(st.booleans())
    flags = f"ceil_mode={str(w.ceil_mode).lower()}, count_include_pad={str(counts).lower()}"
    pool = getattr(F, f"avg_pool{rank}d")
    return Case(
        f"avg_pool{rank}d(x, {', '.join(map(listed, (w.size, w.stride, w.padding)))}, {flags})",
        lambda x: pool(x, w.size, w.stride, w.padding, w.ceil_mode, counts),
        {"x": numbers(draw, w.shape, dtype)},
    )


def lp_pools(draw: Draw, dtype: torch.dtype) -> Case:
    """Of positive numbers: PyTorch's definition takes the absolute value of a sum, and has no gradient at 0."""
    rank = draw(st.integers(1, 3))
    w = windows(draw, rank, leaves=False)
    p, ceil_mode = draw(st.integers(1, 3)), draw(st.booleans())
    pool = getattr(F, f"lp_pool{rank}d")
    size, stride = (w.size, w.stride) if rank > 1 else (w.size[0], w.stride[0])
    return Case(
        f"lp_pool{rank}d(x, {p}, {listed(w.size)}, {listed(w.stride)}, ceil_mode={str(ceil_mode).lower()})",
        lambda x: pool(x, float(p), size, stride, ceil_mode),
        {"x": numbers(draw, w.shape, dtype).abs() + 0.5},
    )


def large_windows(draw: Draw, dtype: torch.dtype) -> Case:
    """Of more elements than are taken apart, and windows as a dimension."""
    rank = draw(st.integers(1, 2))
    size = [draw(st.integers(65, 80))] if rank == 1 else [draw(st.integers(7, 9)), draw(st.integers(10, 11))]
    stride = size if draw(st.booleans()) else [draw(st.integers(1, 12)) for _ in size]
    shape = [*a_shape(draw, 2, 2, 2), *(one + draw(st.integers(0, 2 * one)) for one in size)]
    dim, step = draw(st.integers(-4, -1)) if rank == 2 else -1, stride[0]
    x, how = numbers(draw, shape, dtype), f"{listed(size)}, {listed(stride)}"
    length = draw(st.integers(1, shape[dim]))
    step = length if draw(st.booleans()) else step
    pools = getattr(F, f"max_pool{rank}d"), getattr(F, f"avg_pool{rank}d")
    text, function = draw(
        st.sampled_from(
            [
                (f"max_pool{rank}d(x, {how})", lambda x: pools[0](x, size, stride)),
                (f"avg_pool{rank}d(x, {how})", lambda x: pools[1](x, size, stride)),
                (f"unfold(x, {dim}, {length}, {step})", lambda x: x.unfold(dim, length, step)),
            ]
        )
    )
    return Case(text, function, {"x": x})


def adaptive_pools(draw: Draw, dtype: torch.dtype) -> Case:
    rank = draw(st.integers(1, 3))
    sizes = [draw(st.integers(1, 3)) for _ in range(rank)]
    shape = [*a_shape(draw, 2, 2, 3), *(one * draw(st.integers(1, 3)) for one in sizes)]
    kind = draw(st.sampled_from(["avg", "max"]))
    pool = getattr(F, f"adaptive_{kind}_pool{rank}d")
    return Case(
        f"adaptive_{kind}_pool{rank}d(x, {listed(sizes)})", lambda x: pool(x, sizes), {"x": numbers(draw, shape, dtype)}
    )


def single_windows(draw: Draw, dtype: torch.dtype) -> Case:
    w = windows(draw, 1, dilated=True, leaves=False)
    which = draw(st.integers(0, w.size[0] - 1))
    length = w.dilation[0] * (w.size[0] - 1) + 1
    return Case(
        f"window(x, -1, {w.size[0]}, {w.stride[0]}, {w.dilation[0]})[{which}]",
        lambda x: x.unfold(-1, length, w.stride[0])[..., which * w.dilation[0]],
        {"x": numbers(draw, w.shape, dtype)},
    )


# ---- indices and positions


def indices(draw: Draw, dtype: torch.dtype) -> Case:
    shape = a_shape(draw, 1, 3)
    dim = a_dim(draw, shape)
    kind = draw(st.sampled_from(["take", "index_select", "embedding", "gather"]))
    of_index = a_shape(draw, 1, 1 if kind == "index_select" else 2, 5)
    if kind == "gather":
        of_index = [draw(st.integers(1, one)) for one in shape]
        of_index[dim] = draw(st.integers(1, 7))
    if kind == "embedding":
        shape, dim = [shape[0], draw(st.integers(1, 7))], 0
    generator = torch.Generator().manual_seed(draw(st.integers(0, 3)))
    i = torch.randint(
        0, shape[dim], of_index, generator=generator, dtype=draw(st.sampled_from([torch.int32, torch.int64]))
    )
    text, function = {
        "take": (f"take(x, i, {dim})", lambda x, i: x[(slice(None),) * (dim % x.dim()) + (i.long(),)]),
        "index_select": (f"index_select(x, {dim}, i)", lambda x, i: torch.index_select(x, dim, i.long())),
        "embedding": ("embedding(i, x)", lambda x, i: F.embedding(i.long(), x)),
        "gather": (f"gather(x, {dim}, i)", lambda x, i: torch.gather(x, dim, i.long())),
    }[kind]
    return Case(text, function, {"x": numbers(draw, shape, dtype), "i": i})


def positions(draw: Draw, dtype: torch.dtype) -> Case:
    shape = a_shape(draw, 2, 4)
    dim = a_dim(draw, shape)
    diagonal = draw(st.integers(-3, 3))
    places = torch.arange(shape[dim]).reshape([-1] + [1] * (len(shape) - 1 - dim % len(shape)))
    text, function = draw(
        st.sampled_from(
            [
                (f"tril(x, {diagonal})", lambda x: x.tril(diagonal)),
                (f"triu(x, {diagonal})", lambda x: x.triu(diagonal)),
                (
                    f"where(iota(x, {dim}) >= {diagonal}, x, 0)",
                    lambda x: torch.where(places >= diagonal, x, torch.zeros_like(x)),
                ),
                (f"argmax(x, {dim})", lambda x: x.argmax(dim)),
                ("argmax(x)", lambda x: x.argmax()),
                (f"argmin(x, {dim}, keepdim=true)", lambda x: x.argmin(dim, keepdim=True)),
                (f"count_nonzero(x, {dim})", lambda x: x.count_nonzero(dim)),
            ]
        )
    )
    return Case(text, function, {"x": numbers(draw, shape, dtype)})


def ropes(draw: Draw, dtype: torch.dtype) -> Case:
    shape = a_shape(draw, 0, 2, 3)
    rows, half = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    pairs = draw(st.booleans())

    def rotated(x, cos, sin):
        if pairs:
            a, b = x[..., ::2], x[..., 1::2]
            return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    operands = {
        "x": numbers(draw, [*shape, rows, 2 * half], dtype),
        **{name: numbers(draw, [rows, half], dtype, 2) for name in ("cos", "sin")},
    }
    return Case(f"rope(x, cos, sin, interleaved={str(pairs).lower()})", rotated, operands)


OPERATIONS: dict[str, Callable[[Draw, torch.dtype], Case]] = {
    one.__name__: one
    for one in (
        slices,
        orders,
        divisions,
        paddings,
        joined,
        pixels,
        max_pools,
        avg_pools,
        lp_pools,
        large_windows,
        adaptive_pools,
        single_windows,
        indices,
        positions,
        ropes,
    )
}


# ---- one case


def wrapped(draw: Draw, case: Case) -> Case:
    """With work before the view, behind it, or none."""
    before = draw(st.sampled_from(["x", "x * 2", "relu(x)", "x"]))
    behind = draw(st.sampled_from(["{}", "{} * 0.5", "tanh({})", "{}"]))
    counts = case.text.startswith(("argm", "count_"))
    text, function = case.text, case.function
    if before != "x" and not case.text.startswith(("lp_pool", "where")):
        text = (
            text.replace("(x", f"({before}", 1)
            if "(x" in text
            else text.replace("x[", f"({before})[", 1) if text.startswith("x[") else text
        )
        if text != case.text:
            work = torch.relu if before == "relu(x)" else lambda x: x * 2
            function = lambda x, **others: case.function(work(x), **others)  # noqa: E731
    if counts or behind == "{}":
        return Case(text, function, case.operands, case.wrt)
    inner = function
    last = torch.tanh if "tanh" in behind else lambda y: y * 0.5
    return Case(behind.format(text), lambda **given: last(inner(**given)), case.operands, case.wrt)


@st.composite
def cases(draw: Draw, operation: str) -> Case:
    dtype = draw(st.sampled_from([torch.float64, torch.float64, *TOLERANCES]))
    return wrapped(draw, OPERATIONS[operation](draw, dtype))


def reason_of(error: Exception) -> str | None:
    return next((name for name, words in REASONS.items() if words in str(error)), None)


def dtype_of(case: Case) -> torch.dtype:
    return case.operands["x"].dtype


def judge(case: Case) -> str:
    """ "forward" or "gradient", for what agreed with PyTorch, or "refused: reason". An AssertionError says what differs."""
    tolerance = TOLERANCES[dtype_of(case)]
    exact = {name: one.double() if one.is_floating_point() else one for name, one in case.operands.items()}
    expected = case.function(**exact)
    try:
        tail = as_written(case.text)
        found = tail(**case.operands)
    except (ValueError, NotImplementedError, epifuse.Error) as error:
        reason = reason_of(error)
        assert reason is not None, f"{case}: refused: {error}"
        return f"refused: {reason}"
    assert found.shape == expected.shape, f"{case}: shape {tuple(found.shape)}, PyTorch's {tuple(expected.shape)}"
    error = difference(found.double(), expected.double())
    assert error <= tolerance, f"{case}: {found.tolist()}, PyTorch's {expected.tolist()}"
    if not expected.is_floating_point() or dtype_of(case) != torch.float64 or expected.numel() == 0:
        return "forward"
    return judge_gradient(case, exact)


def judge_gradient(case: Case, exact: dict[str, torch.Tensor]) -> str:
    leaves = {name: one.clone().requires_grad_(name in case.wrt) for name, one in exact.items()}
    result = case.function(**leaves)
    weights = torch.arange(1, result.numel() + 1, dtype=torch.float64).reshape(result.shape) / 4
    want = torch.autograd.grad(result, [leaves[name] for name in case.wrt], weights, allow_unused=True)
    try:
        gradient = epifuse.gradient(as_written(case.text), case.wrt)
        inputs = [exact[name] for name in gradient.forward.inputs]
        found = gradient.forward(*inputs)
        found = list(found) if isinstance(found, tuple) else [found]
        arrays = gradient.backward_arrays(inputs, found, [weights])
        got = gradient.backward(*arrays, dtype=gradient.backward_dtypes(inputs))
    except (ValueError, NotImplementedError, epifuse.Error) as error:
        reason = reason_of(error)
        assert reason is not None, f"{case}: the gradient is refused: {error}"
        return f"gradient refused: {reason}"
    for name, one, other in zip(case.wrt, got if isinstance(got, tuple) else [got], want):
        other = torch.zeros_like(exact[name]) if other is None else other
        assert one.shape == other.shape, f"{case}: d{name} has shape {tuple(one.shape)}"
        error = difference(one, other)
        assert (
            error <= TOLERANCES[torch.float64]
        ), f"{case}: d{name} is {one.tolist()}, PyTorch's {other.tolist()}; backward: {gradient.backward.text}"
    return "gradient"


# ---- many


def run(operation: str, count: int, seed: int, judged: Callable[[Case], str] = judge) -> tuple[collections.Counter, str | None]:
    """So many cases: how often each outcome, and the smallest case that hypothesis finds where one fails."""
    outcomes: collections.Counter = collections.Counter()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(cases(operation))
    def one(case: Case) -> None:
        outcomes[judged(case)] += 1

    try:
        one()
    except Exception as error:  # whatever it is, it is a finding
        return outcomes, f"{type(error).__name__}: {error}"
    return outcomes, None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path, help="the JSON file to write")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--emitted", type=pathlib.Path, help="the test that runs some of them as emitted text, too: emitted_test")
    parser.add_argument("--emitted-cases", type=int, default=2_500)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    root = pathlib.Path(__file__).resolve().parents[3]
    by_operation, failures = {}, {}
    each = -(-given.cases // len(OPERATIONS))
    for number, operation in enumerate(OPERATIONS):
        outcomes, failure = run(operation, each, given.seed + number)
        by_operation[operation] = dict(sorted(outcomes.items()))
        if failure is not None:
            failures[operation] = failure
        print(operation, by_operation[operation], failure or "", flush=True)
    total = collections.Counter()
    for outcomes in by_operation.values():
        total.update(outcomes)
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    ).stdout.strip()
    emitted = "" if given.emitted is None else f"--emitted {given.emitted} "
    report = {
        "command": f"python python/tests/support/view_cases.py --cases {given.cases} --seed {given.seed} {emitted}{given.report}",
        "commit": commit,
        "torch": torch.__version__,
        "device": "cpu",
        "seed": given.seed,
        "cases": sum(total.values()),
        "outcomes": dict(sorted(total.items())),
        "by_operation": by_operation,
        "failures": failures,
    }
    if given.emitted is not None:
        import view_cases_emitted  # it imports this file

        report["emitted"] = view_cases_emitted.report(given.emitted, given.emitted_cases, given.seed)
        failures.update(dict.fromkeys(report["emitted"]["failures"], "as emitted text"))
    given.report.write_text(json.dumps(report, indent=1) + "\n")
    print(report["cases"], "cases;", report["outcomes"], f"{len(failures)} operations differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
