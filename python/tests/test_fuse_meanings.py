"""What @epifuse.fuse makes of PyTorch's and NumPy's functions: exactly what they do, or Untraceable. Each case names one
function whose meaning depends on whose it is, or on an argument that a chain does not have."""

import functools
import operator
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402

import epifuse  # noqa: E402

X = torch.linspace(-3, 3, 24).reshape(2, 3, 4)
Y = torch.linspace(2, -2, 24).reshape(2, 3, 4)
WEIGHT = torch.tensor([0.25, 0.5, 0.75])
MASK = X > 0.5
BYTES = torch.tensor([[250, 1, 100], [7, 8, 200]], dtype=torch.uint8)
ARRAY = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)
SMALL = np.array([[1, 2, 3], [100, -128, 127]], np.int8)
WIDE = np.array([[2**24 + 1, 2], [3, 4]], np.int64)


def agrees(function, *arrays):
    wanted = function(*arrays)
    found = epifuse.fuse(function)(*arrays)
    for one, other in zip(*(many if isinstance(many, tuple) else (many,) for many in (found, wanted))):
        assert tuple(one.shape) == tuple(other.shape)
        np.testing.assert_allclose(np.asarray(one, np.float64), np.asarray(other, np.float64), rtol=2e-5, atol=2e-5)


RIGHT = {
    "Tensor.where": (lambda x, y: x.where(x > 0, y), X, Y),
    "torch.where": (lambda x, y: torch.where(x > 0, x, y), X, Y),
    "where, operator": (lambda m, n: (m & ~n) | (m ^ n), MASK, ~MASK),
    "bool + bool": (lambda m, n: m + n, MASK, MASK),
    "numpy bool + bool": (lambda m: np.add(m, m), ARRAY > 0),
    "prelu, a weight a channel": (lambda x, w: F.prelu(x, w), X, WEIGHT),
    "lerp at 1": (lambda x, y: torch.lerp(x, y, 1.0), torch.tensor([3e38, 1.0]), torch.tensor([-3e38, 7.0])),
    "lerp, a tensor": (lambda x, y, w: torch.lerp(x, y, w), X, Y, torch.linspace(0, 1, 4)),
    "threshold": (lambda x: F.threshold(x, 0.5, -7.0), X),
    "max of a dimension": (lambda x: torch.max(x, 1).values, X),
    "max of a dimension, unpacked": (lambda x: x.max(dim=1, keepdim=True)[0], X),
    "numpy.max": (lambda x: np.max(x, axis=1), ARRAY),
    "ndarray.max": (lambda x: x.max(1), ARRAY),
    "numpy.var": (lambda x: np.var(x, 1), ARRAY),
    "numpy.std": (lambda x: np.std(x, axis=(0, 2), ddof=1), ARRAY),
    "ndarray.std": (lambda x: x.std(-1), ARRAY),
    "Tensor.std": (lambda x: x.std(-1), X),
    "Tensor.var": (lambda x: x.var(1, unbiased=False), X),
    "numpy.sum, positional dtype": (lambda n: np.sum(n, 1, np.float64), SMALL),
    "numpy.linalg.norm, Frobenius": (lambda x: np.linalg.norm(x, axis=(0, 1)), ARRAY),
    "numpy.linalg.norm, all": (lambda x: np.linalg.norm(x), ARRAY),
    "numpy.float64": (lambda x: x * np.float64(0.5) + np.sqrt(2), ARRAY),
    "numpy.float64, torch": (lambda x: np.float64(0.5) * x, X),
    "numpy.sign of NaN": (lambda x: np.sign(np.log(x)), ARRAY),
    "softmax(dtype=)": (lambda x: F.softmax(x, -1, dtype=torch.float64), X),
    "bounds of int64": (lambda n: n.clamp(-5, 7) + 1, torch.tensor([-(2**60), -3, 4, 2**53 + 1])),
    "floor division": (lambda x: x // 0.1, torch.tensor([1.0, 0.3, -1.0, float("inf")])),
    "floor division, signs of 0": (lambda x: 7 // (0 // x), torch.tensor([2.0, -2.0, 0.5])),
    "numpy uint8 and int8 give int16": (lambda n: n - np.int8(1), np.array([[0, 1, 255]], np.uint8)),
    "numpy uint8 and int8 arrays give int16": (lambda n, m: n * m, np.array([[0, 1, 255]], np.uint8), SMALL[:1]),
    "numpy remainder, signs of 0": (lambda x: 1 / (x % 2.0) + 1 / (x % -2.0), np.array([-4, 4, 2], np.float32)),
    "rounding_mode": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), X, Y),
    "unsqueeze at the end": (lambda x: x.unsqueeze(2), X[0]),
    "unsqueeze in front": (lambda x: x.unsqueeze(0), X[0]),
    "of a condition": (lambda x: x.masked_fill(x > 0, 2.0), X),
    "integers that fit": (lambda n: np.maximum(n, 5), SMALL),
    "clamped to int8": (lambda x: torch.clamp(torch.round(x * 100), -128, 127).to(torch.int8), X),
    "truncated": (lambda x: torch.clamp(x, -5, 5).int(), X),
    "numbers of integers": (lambda n: n * 0.5, torch.arange(5)),
    "a large integer and 0": (lambda n: n > 0, torch.tensor([2**40, -1, 0])),
    "an argument that is not used": (lambda x, y: x * 2, X[0], Y),
    "compared in f16": (lambda x: x >= 0.1, torch.tensor([0.1, 0.2, 0.0999], dtype=torch.float16)),
    "shapes of computed values": (lambda x: F.layer_norm(x + 1, (x + 1).shape[-1:]), X),
}


@pytest.mark.parametrize("case", RIGHT.values(), ids=RIGHT)
def test_right(case):
    agrees(*case)


UNTRACEABLE = {
    "relu in place": (lambda x, y: F.relu(y, inplace=True) + x, X, Y),
    "relu_": (lambda x: (x * 2).relu_(), X),
    "nn.ReLU(True)": (lambda x: torch.nn.ReLU(True)(x * 2), X),
    "add_": (lambda x: (x * 2).add_(1), X),
    "+=": (lambda x: operator.iadd(x * 2, 1), X),
    "torch.add(out=)": (lambda x, y, z: torch.add(x, y, out=z), X, Y, X.clone()),
    "numpy.add(out=)": (lambda x, y, z: np.add(x, y, out=z), ARRAY, ARRAY, ARRAY.copy()),
    "numpy.add(where=)": (lambda x, m: np.add(x, x, where=m), ARRAY, ARRAY > 0),
    "numpy.add(dtype=)": (lambda x: np.add(x, x, dtype=np.float64), ARRAY),
    "numpy.sum(initial=)": (lambda x: np.sum(x, initial=3.0), ARRAY),
    "numpy.sum(where=)": (lambda x, m: np.sum(x, where=m), ARRAY, ARRAY > 0),
    "numpy.linalg.norm, spectral": (lambda x: np.linalg.norm(x, 2), ARRAY[0]),
    "& of integers": (lambda n: n & 3, torch.arange(5)),
    "| of integers": (lambda n: n | n, SMALL),
    "~ of integers": (lambda n: ~n, SMALL),
    "uint8 + uint8": (lambda n: n + n, BYTES),
    "int8 * int8": (lambda n: n * n, SMALL),
    "- of uint8": (lambda n: -n, BYTES),
    "int64 == int64": (lambda n, m: n == m, torch.tensor([2**24]), torch.tensor([2**24 + 1])),
    "int64 + 1": (lambda n: n + 1, torch.tensor([2**24])),
    "integers // tensor": (lambda n: n // n, torch.arange(1, 5)),
    "float to int8": (lambda x: (x * 100).to(torch.int8), X),
    "float to uint8": (lambda x: x.byte(), X),
    "float to float8": (lambda x: (x * 1000).to(torch.float8_e4m3fn), X),
    "a bound that float8 rounds up": (lambda x: x.clamp(0, 255).to(torch.float8_e4m3fn).to(torch.uint8), X),
    "float64 of int64": (lambda n: np.sin(n), WIDE),
    "any(dim=())": (lambda x: torch.any(x > 0, dim=()), X),
    "round(decimals=)": (lambda x: torch.round(x, decimals=1), X),
    "numpy.round(decimals)": (lambda x: np.round(x, 1), ARRAY),
    "softmax without dim": (lambda x: F.softmax(x), X),
    "clone(memory_format=)": (lambda x: x.clone(memory_format=torch.channels_last), X[None]),
    "torch.equal": (lambda x, y: torch.equal(x, y), X, Y),
    "positions among integers": (lambda n: torch.max(n, 0).indices + 0, torch.tensor([2**24, 2**24 + 1])),
    "positions among integers, alone": (lambda n: torch.max(n, 0)[1], torch.tensor([2**24, 2**24 + 1])),
    "numpy.max of a tensor": (lambda x: np.max(x, axis=1), X),
    "a tensor from outside": (lambda x: x + Y, X),
    "results of two shapes": (lambda x, y: (x * 2, y * 2), X, Y[0]),
}


@pytest.mark.parametrize("case", UNTRACEABLE.values(), ids=UNTRACEABLE)
def test_untraceable(case):
    function, *arrays = case
    with pytest.raises(epifuse.Untraceable):
        epifuse.fuse(function)(*arrays)


@pytest.mark.parametrize(
    "function, arrays",
    [
        (lambda x: F.layer_norm(x, (3,)), [X]),
        (lambda x: torch.sum(x, 7), [X]),
        (lambda x, y: x + y, [X, Y[:, :2]]),
        (lambda m: m - m, [MASK]),
        (lambda x: np.sum(x, axis=5), [ARRAY]),
        (lambda x: x.softmax(nothing=1), [X]),
    ],
)
def test_what_the_library_refuses_is_its_error(function, arrays):
    with pytest.raises(Exception) as wanted:
        function(*arrays)
    with pytest.raises((type(wanted.value), epifuse.Untraceable)):
        epifuse.fuse(function)(*arrays)


# ---- numbers that a function needs


def test_dimensions_and_counts_belong_to_the_trace():
    @epifuse.fuse
    def summed(x, dim):
        return x.sum(dim) * 2

    @epifuse.fuse
    def repeated(x, n, alpha):
        for _ in range(n):
            x = x * alpha
        return x

    for dim in (1, 2, 0, -1, 1):
        agrees_with(summed(X, dim), X.sum(dim) * 2)
    for n in (2, 3, 2):
        agrees_with(repeated(X, n, 0.5), X * 0.5**n)
    agrees_with(epifuse.fuse(lambda x, eps: F.layer_norm(x, (4,), eps=eps))(X, 0.1), F.layer_norm(X, (4,), eps=0.1))
    agrees_with(epifuse.fuse(lambda x, dim: torch.max(x, dim)[0])(X, 1), X.amax(1))


def agrees_with(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-5)


def test_a_condition_on_a_number_is_named():
    with pytest.raises(epifuse.Untraceable, match="condition on a run-time scalar.*'alpha'"):
        epifuse.fuse(lambda x, alpha: x * alpha if alpha > 1 else x)(X, 2.0)
    with pytest.raises(epifuse.Untraceable, match="run-time scalar.*'alpha'"):
        epifuse.fuse(lambda x, alpha: x * float(alpha))(X, 2.0)


def test_arithmetic_of_numbers():
    function = lambda x, a, n: x * (1 / a - n) + (a**2 > n) * x  # noqa: E731
    for a, n in ((2.0, 3), (0.5, -1)):
        agrees_with(epifuse.fuse(function)(X, a, n), function(X, a, n))


# ---- which trace


def test_functions_among_the_arguments_are_not_mixed_up():
    tail = epifuse.fuse(lambda x, f: f(x))
    for k in (2, 3, 5):
        agrees_with(tail(X, lambda t: t * k), X * k)


def test_objects_that_change_are_read_again():
    settings = types.SimpleNamespace(scale=2.0)
    tail = epifuse.fuse(lambda x, settings: x * settings.scale)
    for settings.scale in (2.0, 3.0):
        agrees_with(tail(X, settings), X * settings.scale)


class Same:
    def __init__(self, scale):
        self.scale = scale

    def __repr__(self):
        return "Same()"

    __eq__ = lambda self, other: True  # noqa: E731
    __hash__ = lambda self: 0  # noqa: E731


def test_equal_objects_are_not_mixed_up():
    tail = epifuse.fuse(lambda x, one: x * one.scale)
    for scale in (2.0, 3.0):
        agrees_with(tail(X, Same(scale)), X * scale)


def test_plain_values_are_told_apart():
    tail = epifuse.fuse(lambda x, pair: x * (2.0 if pair[0] is True else 3.0) + pair[1])
    for pair in ((True, 0.0), (1, 0.0), (True, 1.0), (1.0, -1.0)):
        agrees_with(tail(X, pair), X * (2.0 if pair[0] is True else 3.0) + pair[1])
    zeros = epifuse.fuse(lambda x, pair: torch.where(x > 0, x, pair[0]))
    for zero in (0.0, -0.0, 0.0):
        assert str(zeros(torch.tensor([-1.0]), (zero,)).item()) == str(zero)
    dtypes = epifuse.fuse(lambda x, dtype: x.to(dtype).float())
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        agrees_with(dtypes(X, dtype), X.to(dtype).float())


SCALE = 2.0


def scaled(x):
    return x * SCALE


def test_variables_outside_are_read_again(monkeypatch):
    tail = epifuse.fuse(lambda x: scaled(x) + 1)
    agrees_with(tail(X), X * 2 + 1)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    agrees_with(tail(X), X * 3 + 1)
    k = 2.0
    inner = epifuse.fuse(lambda x: x * k)
    agrees_with(inner(X), X * 2)
    k = 5.0
    agrees_with(inner(X), X * 5)


def test_shapes_and_types_are_told_apart():
    tail = epifuse.fuse(lambda x: x.double() / x.numel() if x.dtype == torch.float16 else x / x.shape[0])
    agrees_with(tail(X), X / 2)
    agrees_with(tail(X[:1]), X[:1])
    assert tail(X.half()).dtype == torch.float64
    agrees_with(tail(X.half()), X.half().double() / 24)


# ---- kinds of functions


class Layer:
    def __init__(self, scale):
        self.scale = scale

    @epifuse.fuse
    def tail(self, x, bias, *rest):
        return (x + bias) * self.scale + (rest[0] if rest else 0)


def test_methods():
    layer, other = Layer(2.0), Layer(3.0)
    agrees_with(layer.tail(X, Y), (X + Y) * 2)
    agrees_with(other.tail(X, Y, X), (X + Y) * 3 + X)
    layer.scale = 5.0
    agrees_with(layer.tail(X, Y), (X + Y) * 5)
    agrees_with(epifuse.fuse(functools.partial(scaled))(X), X * SCALE)
    assert "__global__" in layer.tail.source(X, Y) and layer.tail.tail(X, Y).inputs == ("x", "bias")


def test_names_of_parameters():
    agrees_with(epifuse.fuse(lambda *args: args[0] - args[1])(X, Y), X - Y)
    agrees_with(epifuse.fuse(lambda args0, *args: args0 - args[0] * args[1])(X, Y, X), X - Y * X)
    agrees_with(epifuse.fuse(lambda input, input_, scalar=2.0: input - input_ * scalar)(X, Y), X - Y * 2)
    agrees_with(epifuse.fuse(lambda größe, β, _0: größe - β * _0)(X, Y, X), X - Y * X)
    agrees_with(epifuse.fuse(lambda x, **more: x - more["x_"] * more["nan"])(X, x_=Y, nan=X), X - Y * X)


def test_a_fused_function_is_copied_as_functions_are():
    import copy
    import pickle

    assert copy.deepcopy(FUSED) is FUSED and pickle.loads(pickle.dumps(FUSED)) is FUSED


FUSED = epifuse.fuse(scaled)
FUSED.__qualname__ = "FUSED"


def test_a_fused_function_inside_of_another():
    agrees_with(epifuse.fuse(lambda x, y: FUSED(x) + y)(X, Y), X * SCALE + Y)
    with pytest.raises(epifuse.Untraceable, match="dtype"):
        epifuse.fuse(lambda x: FUSED(x, dtype="f16") + 1)(X)


def test_a_number_is_a_number_to_who_asks():
    agrees_with(epifuse.fuse(lambda x, a: x * (a if isinstance(a, float) else -a))(X, 2.0), X * 2)
    agrees_with(epifuse.fuse(lambda x, a: x * (a if isinstance(a, float) else -a))(X, 2), X * -2)


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_tracers_see_the_kernel_alone(mode):
    from torch.fx.experimental.proxy_tensor import make_fx

    tail = epifuse.fuse(lambda x, y: torch.relu(x + y).sum(-1, keepdim=True) * 2)
    graph = make_fx(lambda x, y: tail(x, y), tracing_mode=mode)(X, Y)
    targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert targets[0] is torch.ops.epifuse.tail.default and len(targets) == 2  # and its first result
    for rows in (2,) if mode == "fake" else (1, 2):
        agrees_with(graph(X[:rows], Y[:rows]), tail(X[:rows], Y[:rows]))


def test_what_the_text_says():
    def says(function, *arrays):
        with pytest.raises(epifuse.Untraceable) as caught:
            epifuse.fuse(function)(*arrays)
        return str(caught.value)

    assert "write y = y +" in says(lambda x: operator.iadd(x * 2, 1), X)
    assert "'relu' gives a new one" in says(lambda x: x.relu_(), X)
    assert "no argument of the function" in says(lambda x: x + Y, X)
    assert "positions among integers, by 'max'" in says(lambda n: torch.max(n, 0).indices + 1, torch.tensor([2**24]))
    assert "float32 first" in says(lambda n: n + n, BYTES)
    assert "clamp it to [-128, 127]" in says(lambda x: x.to(torch.int8), X)
    assert "inplace=True" in says(lambda x: F.relu(x, inplace=True), X)
    assert "out" in says(lambda x: np.exp(x, out=x), ARRAY)
    assert "torch has its own" in says(lambda x: np.sum(x), X)
    assert "changes its running statistics" in says(lambda x, m, v: F.batch_norm(x, m, v, training=True), X, *X.new_ones(2, X.shape[1]))
