"""Pools of more than 64 elements and their gradients against PyTorch's, drawn at random: with padding, ceil_mode and
dilation, of values that are sliced, joined, rolled, padded and computed."""

import os
import random

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import torch.nn.functional as F  # noqa: E402
from tails import as_written  # noqa: E402

import epifuse  # noqa: E402

SEED = int(os.environ.get("EPIFUSE_TEST_SEED", "64"))
TOLERANCES = {torch.float32: 3e-5, torch.float64: 1e-9, torch.float16: 3e-3, torch.bfloat16: 3e-2}


def listed(numbers):
    return f"({', '.join(map(str, numbers))},)"


class Pool:
    """A drawn pool over the last dimensions: its text of a value, PyTorch's function, and extents that it fits."""

    def __init__(self, rng, kind=None):
        self.kind = kind or rng.choice(["max", "avg", "lp"])
        self.rank = rank = rng.randint(1, 3)
        sizes = [(65, 90)], [(7, 9), (10, 12)], [(3, 5), (5, 5), (5, 6)]
        size = [rng.randint(*bounds) for bounds in sizes[rank - 1]]
        all_overlap = rng.random() < 0.35
        stride = [1 if all_overlap else rng.choice([rng.randint(1, 4), rng.randint(one // 3, one + 1)]) for one in size]
        padding = [0 if self.kind == "lp" else rng.choice([0, rng.randint(0, one // 2)]) for one in size]
        dilation = [rng.randint(1, 2) if self.kind == "max" else 1 for _ in size]
        ceil_mode = rng.random() < 0.4
        reach = [(one - 1) * by + 1 - 2 * more for one, by, more in zip(size, dilation, padding)]
        # PyTorch wants as many elements as a window has of three dimensions, padding or not.
        least = [max(one, of if rank == 3 else 1) for one, of in zip(reach, size)]
        self.extents = [one + rng.randint(0, 9) for one in least]
        mode, name = f"ceil_mode={str(ceil_mode).lower()}", f"{self.kind}_pool{rank}d"
        function = getattr(F, name)
        if self.kind == "max":
            numbers = ", ".join(map(listed, (size, stride, padding, dilation)))
            self._text = f"{name}({{}}, {numbers}, {mode})"
            self.of = lambda x: function(x, size, stride, padding, dilation, ceil_mode)
        elif self.kind == "avg":
            counts, divisor = rng.random() < 0.5, rank > 1 and rng.random() < 0.3
            numbers = ", ".join(map(listed, (size, stride, padding)))
            more = f"count_include_pad={str(counts).lower()}" + (", divisor_override=7" if divisor else "")
            self._text = f"{name}({{}}, {numbers}, {mode}, {more})"
            self.of = lambda x: function(x, size, stride, padding, ceil_mode, counts, *([7] if divisor else []))
        else:
            self._text = f"{name}({{}}, 2, {listed(size)}, {listed(stride)}, {mode})"
            one = (size, stride) if rank > 1 else (size[0], stride[0])
            self.of = lambda x: function(x, 2, *one, ceil_mode)

    def text(self, value):
        return self._text.format(value)


def drawn_elements(rng, pool, shape):
    x = torch.randn(shape, dtype=torch.float64)
    if pool.kind == "lp":
        return x.abs() + 0.2
    if pool.kind == "max" and rng.random() < 0.4:
        x = (x * 1.5).round()  # equal ones
    return x


def laid_out(rng, x):
    how = rng.randrange(4)
    if how == 1 and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    if how == 2:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if how == 3:
        within = torch.full([one + 2 for one in x.shape], 99, dtype=x.dtype)
        within = within[tuple(slice(1, one + 1) for one in x.shape)]
        return within.copy_(x)
    return x


def near(found, wanted, text):
    tolerance = TOLERANCES[found.dtype]
    assert found.shape == wanted.shape, text
    largest = wanted.abs().nan_to_num(0, 0, 0).max().item() if wanted.numel() else 0
    close = torch.allclose(found.double(), wanted, rtol=tolerance, atol=tolerance * max(largest, 1), equal_nan=True)
    assert close, (text, SEED)


def values(rng, pool, x):
    """Ways to come by what is pooled: the text, the operands, and the same function of PyTorch."""
    d = rng.randrange(1, x.dim())
    shift, cut = rng.randint(-3, 5), rng.randint(0, x.shape[d])
    inner = tuple(slice(1, 1 + one) for one in x.shape)
    within = F.pad(x, (1, 2) * x.dim(), value=7)
    first, second = x.narrow(d, 0, cut), x.narrow(d, cut, x.shape[d] - cut)
    places = ", ".join(f"1:{one + 1}" for one in x.shape)
    sizes = [rng.randint(0, 2) for _ in range(2 * pool.rank)]
    scale = torch.rand(x.shape[1], *[1] * pool.rank, dtype=x.dtype) + 0.1
    exact = scale.double()
    return {
        "as it is": ("x", dict(x=x), lambda x: x),
        "computed": ("(x * 2 + 1)", dict(x=x), lambda x: x * 2 + 1),
        "scaled": ("(x * s)", dict(x=x, s=scale), lambda x: x * exact),
        "sliced": (f"x[{places}]", dict(x=within), lambda x: x[inner]),
        "rolled": (f"roll(x, {shift}, {d})", dict(x=x), lambda x: x.roll(shift, d)),
        "reversed": (f"flip(x, ({d},))", dict(x=x), lambda x: x.flip(d)),
        "padded": (f"pad(x, {listed(sizes)}, value=0.5)", dict(x=x), lambda x: F.pad(x, sizes, value=0.5)),
        "joined": (f"cat((relu(x), y), {d})", dict(x=first, y=second), lambda x: torch.cat((x.relu(), second.double()), d)),
    }


def test_pools_agree_with_pytorch():
    rng = random.Random(SEED)
    torch.manual_seed(SEED)
    for _ in range(250):
        pool = Pool(rng)
        dtype = rng.choice(list(TOLERANCES))
        x = drawn_elements(rng, pool, [rng.randint(1, 3), rng.randint(1, 3), *pool.extents])
        if pool.kind == "max" and rng.random() < 0.4:
            drawn = torch.rand(x.shape)
            x[drawn < 0.02], x[drawn > 0.6] = float("nan"), -float("inf")
        value, operands, of = rng.choice(list(values(rng, pool, x.to(dtype)).values()))
        text = f"{pool.text(value)} * 2 + 1"
        found = epifuse.compile(text)(**{name: laid_out(rng, one) for name, one in operands.items()})
        near(found, pool.of(of(operands["x"].double())) * 2 + 1, text)


def gradient_of(text, operands, dout):
    tail = as_written(text)
    gradient = epifuse.gradient(tail, "x")
    inputs = [operands[name] for name in tail.inputs]
    results = gradient.forward(*inputs)
    results = list(results) if isinstance(results, tuple) else [results]
    arrays = gradient.backward_arrays(inputs, results, [dout])
    return gradient.backward(*arrays, dtype=gradient.backward_dtypes(inputs))


def wanted_gradient(function, x, dout):
    exact = x.double().clone().requires_grad_()
    return torch.autograd.grad(function(exact), exact, dout.double())[0]


@pytest.mark.parametrize("how", ["as it is", "computed", "scaled", "reversed"])
@pytest.mark.parametrize("kind", ["max", "avg", "lp"])
def test_gradients_of_pools_agree_with_pytorch(kind, how):
    rng = random.Random(f"{SEED} {kind} {how}")
    torch.manual_seed(SEED)
    for _ in range(20):
        pool = Pool(rng, kind)
        dtype = rng.choice([torch.float32, torch.float64])
        x = drawn_elements(rng, pool, [rng.randint(1, 2), rng.randint(1, 3), *pool.extents])
        if kind == "max" and how == "as it is" and rng.random() < 0.4:
            drawn = torch.rand(x.shape)
            x[drawn < 0.01], x[drawn > 0.5] = float("nan"), -float("inf")
        value, operands, of = values(rng, pool, x.to(dtype))[how]
        wanted = lambda x: pool.of(of(x))  # noqa: E731
        text = pool.text(value)
        dout = torch.randn(wanted(operands["x"].double()).shape).to(dtype)
        operands = {name: laid_out(rng, one) for name, one in operands.items()}
        near(gradient_of(text, operands, dout), wanted_gradient(wanted, operands["x"], dout), text)


UNFOLDED = {
    "sum": ("sum({}, -1)", lambda u: u.sum(-1)),
    "mean": ("mean({}, -1)", lambda u: u.mean(-1)),
    "amax": ("amax({}, -1)", lambda u: u.amax(-1)),
    "var": ("var({}, -1, correction=0)", lambda u: u.var(-1, correction=0)),
    "steps": ("sum({}[..., ::2], -1)", lambda u: u[..., ::2].sum(-1)),
    "weights": ("sum({} * iota({}, -1), -1)", lambda u: (u * torch.arange(u.shape[-1])).sum(-1)),
    "elements": ("tanh({}) * 3", lambda u: u.tanh() * 3),
}


@pytest.mark.parametrize("name", UNFOLDED)
def test_gradients_of_unfold_agree_with_pytorch(name):
    rng = random.Random(f"{SEED} {name}")
    torch.manual_seed(SEED)
    pattern, function = UNFOLDED[name]
    for _ in range(30):
        x = torch.randn(rng.randint(7, 12), rng.randint(7, 12), dtype=torch.float64)
        where = rng.randint(-2, 1), rng.randint(1, 7), rng.randint(1, 4)
        text = pattern.replace("{}", f"unfold(x, {where[0]}, {where[1]}, {where[2]})")
        wanted = lambda x: function(x.unfold(*where))  # noqa: E731
        dout = torch.randn(wanted(x).shape, dtype=torch.float64)
        near(gradient_of(text, dict(x=x), dout), wanted_gradient(wanted, x, dout), text)


def test_tails_train_through_large_pools():
    x = torch.randn(2, 3, 16, 16)
    for text, function in [
        ("relu(max_pool2d(x, 9, 2, 4)) * 2", lambda x: F.max_pool2d(x, 9, 2, 4).relu() * 2),
        ("avg_pool2d(max_pool2d(x, 9, 1, 4), 9)", lambda x: F.avg_pool2d(F.max_pool2d(x, 9, 1, 4), 9)),
        ("max_pool2d(x, 9, 1, 4) + x", lambda x: F.max_pool2d(x, 9, 1, 4) + x),
    ]:
        own, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
        found, wanted = epifuse.compile(text)(x=own), function(theirs)
        near(found.detach(), wanted.detach(), text)
        dout = torch.randn(found.shape)
        found.backward(dout)
        wanted.backward(dout.double())
        near(own.grad, theirs.grad, text)
