"""Views of views: chains of a few steps drawn at random, and their gradients, against PyTorch on the CPU device.

What fails is shrunk: steps are left out as long as it fails. The message has the seed, the chain and the shape.
"""

import math
import random
from dataclasses import dataclass
from typing import Callable

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import torch.nn.functional as F  # noqa: E402

import epifuse  # noqa: E402

SEED = 271127
MOST_DIMENSIONS = 6
MOST_ELEMENTS = 3000


@dataclass(frozen=True)
class Step:
    text: str  # of the chain, where {} stands for what is before it
    apply: Callable


def slices(rng, shape):
    axis = rng.randrange(len(shape))
    low, high = (rng.choice([None, rng.randint(-7, 7)]) for _ in range(2))
    step = rng.choice([None, 1, 2, 3, -1, -2])
    places = list(range(shape[axis]))[slice(low, high, step)]
    item = ":".join("" if part is None else str(part) for part in (low, high, step))
    items = ", ".join([":"] * axis + [item])
    return places and Step(f"({{}})[{items}]", lambda x: x.index_select(axis, torch.tensor(places)))


def select(rng, shape):
    axis = rng.randrange(len(shape))
    place = rng.randrange(-shape[axis], shape[axis])
    return Step(f"select({{}}, {axis}, {place})", lambda x: x.select(axis, place))


def permute(rng, shape):
    order = rng.sample(range(len(shape)), len(shape))
    return Step(f"permute({{}}, ({', '.join(map(str, order))},))", lambda x: x.permute(order))


def flip(rng, shape):
    axis = rng.randrange(len(shape))
    return Step(f"flip({{}}, {axis})", lambda x: x.flip(axis))


def roll(rng, shape):
    axis, shift = rng.randrange(-len(shape), len(shape)), rng.randint(-8, 8)
    return Step(f"roll({{}}, {shift}, {axis})", lambda x: x.roll(shift, axis))


def pad(rng, shape):
    before, behind, value = rng.randint(0, 2), rng.randint(0, 2), rng.choice([0, 1.5])
    return Step(f"pad({{}}, ({before}, {behind}), value={value})", lambda x: F.pad(x, (before, behind), value=value))


def flatten(rng, shape):
    return len(shape) > 1 and Step("flatten({}, 0, 1)", lambda x: x.flatten(0, 1))


def reshape(rng, shape):
    elements = math.prod(shape)
    first = rng.choice([size for size in range(1, elements + 1) if elements % size == 0])
    return Step(f"reshape({{}}, ({first}, -1))", lambda x: x.reshape(first, -1))


def cat(rng, shape):
    axis = rng.randrange(len(shape))
    count = rng.randint(1, shape[axis])
    return Step(
        f"cat(({{0}}, narrow({{0}}, {axis}, 0, {count}) * 2), {axis})",
        lambda x: torch.cat((x, x.narrow(axis, 0, count) * 2), axis),
    )


def stack(rng, shape):
    axis = rng.randrange(len(shape) + 1)
    return Step(f"stack(({{0}}, {{0}} + 1), {axis})", lambda x: torch.stack((x, x + 1), axis))


def unsqueeze(rng, shape):
    axis = rng.randrange(len(shape) + 1)
    return Step(f"unsqueeze({{}}, {axis})", lambda x: x.unsqueeze(axis))


def expand(rng, shape):
    axes = [axis for axis, extent in enumerate(shape) if extent == 1]
    if not axes:
        return None
    axis = rng.choice(axes)
    sizes = [3 if at == axis else extent for at, extent in enumerate(shape)]
    return Step(f"expand({{}}, ({', '.join(map(str, sizes))},))", lambda x: x.expand(sizes))


def pool(rng, shape):
    if len(shape) not in (2, 3):
        return None
    kind, size, stride = rng.choice(["max", "avg"]), rng.randint(1, 3), rng.randint(1, 3)
    padding, ceil_mode = rng.randint(0, size // 2), rng.random() < 0.5
    if shape[-1] + 2 * padding < size:
        return None
    function = getattr(F, f"{kind}_pool1d")
    mode = str(ceil_mode).lower()
    return Step(
        f"{kind}_pool1d({{}}, {size}, {stride}, {padding}, ceil_mode={mode})",
        lambda x: function(x, size, stride, padding, ceil_mode=ceil_mode),
    )


def tril(rng, shape):
    diagonal = rng.randint(-2, 2)
    return len(shape) > 1 and Step(f"tril({{}}, {diagonal})", lambda x: x.tril(diagonal))


def iota(rng, shape):
    axis = rng.randrange(len(shape))
    sizes = [-1 if at == axis else 1 for at in range(len(shape))]
    return Step(f"({{0}}) * iota({{0}}, {axis})", lambda x: x * torch.arange(x.shape[axis]).reshape(sizes))


def reduction(rng, shape):
    axis, keepdim = rng.randrange(len(shape)), rng.random() < 0.5
    name = rng.choice(["sum", "mean", "amax", "logsumexp"])
    return Step(f"{name}({{}}, {axis}, {str(keepdim).lower()})", lambda x: getattr(x, name)(axis, keepdim))


def softmax(rng, shape):
    axis = rng.randrange(len(shape))
    return Step(f"softmax({{}}, {axis})", lambda x: x.softmax(axis))


def unary(rng, shape):
    name = rng.choice(["tanh", "sigmoid"])
    return Step(f"{name}({{}})", getattr(torch, name))


DRAWN = [slices, select, permute, flip, roll, pad, flatten, reshape, cat, stack, unsqueeze, expand, pool, tril, iota]
DRAWN += [reduction, softmax, unary]


def drawn_steps(rng, shape):
    value, steps = torch.zeros(shape), []
    for _ in range(rng.randint(1, 5)):
        draw = rng.choice(DRAWN if value.dim() else [unsqueeze, unary])
        step = draw(rng, list(value.shape))
        if not step:
            continue
        value = step.apply(value)
        if value.dim() > MOST_DIMENSIONS or value.numel() > MOST_ELEMENTS or not value.numel():
            break
        steps.append(step)
    return steps


def text_of(steps):
    text = "x * 1"
    for step in steps:
        text = step.text.format(text)
    return text


def expected_of(steps, x):
    value = x * 1
    for step in steps:
        value = step.apply(value)
    return value


def forward_problem(steps, x):
    """None where the chain gives what PyTorch gives, or is refused; else what is wrong."""
    expected = expected_of(steps, x)
    try:
        found = epifuse.compile(text_of(steps))(x=x)
    except ValueError:
        return None, False
    is_same = found.shape == expected.shape and torch.allclose(found, expected, atol=1e-5, rtol=1e-4, equal_nan=True)
    return None if is_same else f"found {found}, expected {expected}", True


def backward_problem(steps, x):
    """The same of the gradient with respect to x."""
    leaf = x.clone().requires_grad_()
    expected = expected_of(steps, leaf)
    dout = torch.randn(expected.shape)
    expected.backward(dout)
    mine = x.clone().requires_grad_()
    try:
        found = epifuse.compile(text_of(steps))(x=mine)
        if not found.requires_grad:
            return None, False
        found.backward(dout)
    except ValueError:
        return None, False
    is_same = torch.allclose(mine.grad, leaf.grad, atol=1e-4, rtol=1e-4, equal_nan=True)
    return None if is_same else f"found {mine.grad}, expected {leaf.grad}", True


def fails(problem, steps, x):
    try:
        return problem(steps, x)[0]
    except (RuntimeError, IndexError):  # a step that does not fit what is left before it
        return None


def shrunk(problem, steps, x):
    """Without steps that take no part in what is wrong."""
    for at in range(len(steps)):
        fewer = steps[:at] + steps[at + 1 :]
        if fewer and fails(problem, fewer, x):
            return shrunk(problem, fewer, x)
    return steps


@pytest.mark.parametrize("problem, count, least", [(forward_problem, 12_000, 0.75), (backward_problem, 3_000, 0.6)])
def test_compositions_agree_with_pytorch(problem, count, least):
    rng = random.Random(SEED)
    torch.manual_seed(SEED)
    computed = 0
    for number in range(count):
        shape = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
        steps = drawn_steps(rng, shape)
        x = torch.randn(shape)
        found, is_computed = problem(steps, x)
        computed += is_computed
        if found:
            steps = shrunk(problem, steps, x)
            text = f"seed {SEED}, chain {number}: {text_of(steps)} of {shape}"
            pytest.fail(f"{text}: {fails(problem, steps, x)}")
    assert computed > least * count


def test_a_slice_of_joined_elements_stays_inside_the_result():
    """Of slices at steps of two a view of some elements sees no more than these: others were written behind them."""
    x = torch.randn(4, 4)
    with pytest.raises(ValueError, match="'stack"):
        epifuse.compile("flatten(stack((x, x + 1), 1), 0, 1)[:3]")(x=x)
    y = torch.randn(2, 1, 5)
    found = epifuse.compile("roll(flatten(select(stack((x, x + 1), 0), 1, 0), 0, 1), 1, 0)")(x=y)
    assert torch.equal(found, torch.stack((y, y + 1), 0).select(1, 0).flatten(0, 1).roll(1, 0))
