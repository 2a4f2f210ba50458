"""Gradients of slices and joined tensors against PyTorch's: of tails, of fused functions and of epifuse.gradient."""

import itertools

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import torch.nn.functional as F  # noqa: E402
from tails import as_written  # noqa: E402

import epifuse  # noqa: E402


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def swiglu_with_bias(x, b):
    y = x + b
    return F.silu(y[..., :8]) * y[..., 8:]


def rope(q, c, s):
    a, b = q.chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def rope_of_pairs(q, c, s):
    a, b = q[..., ::2], q[..., 1::2]
    return torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)


def cell(x, h):
    i, f, o, g = x.chunk(4, -1)
    return torch.sigmoid(i) * torch.tanh(g) + torch.sigmoid(f) * h, torch.sigmoid(o)


def halves(x):
    a, b = x.chunk(2, -1)
    return torch.sigmoid(a), torch.tanh(b)


# What stands in a chain, the same function of PyTorch, and the shapes of its operands.
CASES = {
    "swiglu": ("silu(x[..., :8]) * x[..., 8:]", swiglu, dict(x=(6, 16))),
    "swiglu of rows": ("silu(x[:3]) * x[3:]", lambda x: F.silu(x[:3]) * x[3:], dict(x=(6, 16))),
    "swiglu, bias": ("y = x + b; silu(y[..., :8]) * y[..., 8:]", swiglu_with_bias, dict(x=(6, 16), b=(16,))),
    "swiglu, norm": (
        "layer_norm(silu(x[..., :8]) * x[..., 8:], w)",
        lambda x, w: F.layer_norm(swiglu(x), (8,), w),
        dict(x=(6, 16), w=(8,)),
    ),
    "glu": ("a, b = chunk(x, 2, -1); a * sigmoid(b)", lambda x: F.glu(x), dict(x=(2, 3, 16))),
    "glu of channels": ("a, b = chunk(x, 2, 1); a * sigmoid(b)", lambda x: F.glu(x, 1), dict(x=(2, 6, 5))),
    "rope": ("rope(q, c, s)", rope, dict(q=(2, 6, 4, 16), c=(6, 1, 8), s=(6, 1, 8))),
    "rope of pairs": ("rope(q, c, s, interleaved=true)", rope_of_pairs, dict(q=(2, 6, 16), c=(6, 8), s=(6, 8))),
    "two ropes": (
        "return rope(q, c, s), rope(k, c, s)",
        lambda q, k, c, s: (rope(q, c, s), rope(k, c, s)),
        dict(q=(2, 6, 4, 16), k=(2, 6, 4, 16), c=(6, 1, 8), s=(6, 1, 8)),
    ),
    "stack": ("stack((x, y), -1)", lambda x, y: torch.stack((x, y), -1), dict(x=(4, 6), y=(4, 6))),
    "stack of three": ("stack((x, y, x * y), 0)", lambda x, y: torch.stack((x, y, x * y), 0), dict(x=(4, 6), y=(4, 6))),
    "cat": ("cat((x, y), -1) * 2", lambda x, y: torch.cat((x, y), -1) * 2, dict(x=(4, 6), y=(4, 6))),
    "cat of rows": ("cat((x, y), 0)", lambda x, y: torch.cat((x, y), 0), dict(x=(4, 6), y=(4, 6))),
    "cat of two sizes": ("cat((x, y), -1)", lambda x, y: torch.cat((x, y), -1), dict(x=(4, 6), y=(4, 3))),
    "cat, bias": (
        "silu(cat((x, y), -1) + b)",
        lambda x, y, b: F.silu(torch.cat((x, y), -1) + b),
        dict(x=(4, 6), y=(4, 6), b=(12,)),
    ),
    "softmax of cat": (
        "softmax(cat((x, y), -1), -1)",
        lambda x, y: torch.softmax(torch.cat((x, y), -1), -1),
        dict(x=(4, 6), y=(4, 6)),
    ),
    "slice": ("x[..., 2:4] * w", lambda x, w: x[..., 2:4] * w, dict(x=(4, 6), w=(2,))),
    "element": ("x[:, 1] * w", lambda x, w: x[:, 1] * w, dict(x=(4, 3, 5), w=(5,))),
    "steps": ("x[..., ::2] * x[..., 1::2]", lambda x: x[..., ::2] * x[..., 1::2], dict(x=(4, 6))),
    # Each half of the gradient reads the gradient of another result.
    "results of halves": ("a, b = chunk(x, 2, -1); return sigmoid(a), tanh(b)", halves, dict(x=(4, 8))),
    "a cell": (
        "i, f, o, g = chunk(x, 4, -1); return sigmoid(i) * tanh(g) + sigmoid(f) * h, sigmoid(o)",
        cell,
        dict(x=(4, 16), h=(4, 4)),
    ),
}
# Gradients that the planner takes apart, so that only calls which record have them.
SEVERAL_KERNELS = {("softmax of cat", "x"), ("softmax of cat", "y")}
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def listed(results):
    return list(results) if isinstance(results, tuple) else [results]


def near(found, wanted, dtype):
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype and one.shape == other.shape
        assert (one.double() - other).abs().max() <= TOLERANCES[dtype] * other.abs().max()


def gradients(call, operands, wanted, douts):
    """Of the results of a call that depend on what is wanted."""
    leaves = [one.detach().clone().requires_grad_(i in wanted) for i, one in enumerate(operands)]
    pairs = [(one, dout.to(one.dtype)) for one, dout in zip(listed(call(*leaves)), douts) if one.requires_grad]
    torch.autograd.backward(*zip(*pairs))
    return [leaves[i].grad for i in wanted]


def drawn(name, dtype):
    text, function, shapes = CASES[name]
    torch.manual_seed(0)
    operands = [torch.randn(shape).to(dtype) for shape in shapes.values()]
    douts = [torch.randn(one.shape).to(dtype) for one in listed(function(*operands))]
    return as_written(text), function, operands, douts


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("how", ["tail", "function"])
@pytest.mark.parametrize("name", CASES)
def test_recorded(name, how, dtype):
    tail, function, operands, douts = drawn(name, dtype)
    names = list(CASES[name][2])
    by_name = lambda *given: tail(**dict(zip(names, given)))  # noqa: E731
    exact = [one.double() for one in operands]
    for count in range(1, len(operands) + 1):
        for wanted in itertools.combinations(range(len(operands)), count):
            found = gradients(by_name if how == "tail" else epifuse.fuse(function), operands, wanted, douts)
            near(found, gradients(function, exact, wanted, douts), dtype)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_each_backward_tail(name, dtype):
    """The gradient of one operand, as epifuse.gradient gives it."""
    tail, function, operands, douts = drawn(name, dtype)
    of = dict(zip(CASES[name][2], operands))
    inputs = [of[one] for one in tail.inputs]
    for place, one in enumerate(of):
        gradient = epifuse.gradient(tail, one)
        results = listed(gradient.forward(*inputs))
        arrays = gradient.backward_arrays(inputs, results, douts)
        if (name, one) in SEVERAL_KERNELS:
            with pytest.raises(ValueError):
                gradient.backward.plan(*arrays)
            continue
        found = gradient.backward(*arrays, dtype=gradient.backward_dtypes(inputs))
        near([found], gradients(function, [value.double() for value in operands], [place], douts), dtype)


def launched(call):
    before = sum(engine["launches"] for engine in epifuse.stats().values())
    call()
    return sum(engine["launches"] for engine in epifuse.stats().values()) - before


@pytest.mark.parametrize("name", ["swiglu", "glu", "rope", "results of halves", "a cell"])
def test_the_gradient_of_all_operands_is_one_kernel(name):
    tail, _, operands, douts = drawn(name, torch.float32)
    leaves = dict(zip(CASES[name][2], (one.requires_grad_() for one in operands)))
    results = listed(tail(**leaves))
    assert launched(lambda: torch.autograd.backward(results, douts)) == 1


def test_the_head_of_a_classifier_has_a_gradient():
    x = torch.randn(2, 3, 7, 7, requires_grad=True)
    epifuse.compile("flatten(avg_pool2d(x, 7), 1)")(x=x).sum().backward()
    assert torch.allclose(x.grad, torch.full_like(x, 1 / 49))
