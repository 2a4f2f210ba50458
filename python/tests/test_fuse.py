"""epifuse.fuse: functions of NumPy's arrays, and what cannot be traced."""

import numpy as np
import pytest

import epifuse

X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)
BIAS = np.array([[1], [2], [3]], np.float32)


def test_operators_and_numpys_functions():
    @epifuse.fuse
    def tail(x, bias):
        t = np.maximum(x + bias, 0) / 2
        return np.where(t > 0.5, np.exp(-t), 1 - t) ** 2

    t = np.maximum(X + BIAS, 0) / 2
    np.testing.assert_allclose(tail(X, BIAS), np.where(t > 0.5, np.exp(-t), 1 - t) ** 2, rtol=1e-6)


def test_numbers_are_scalars_and_keep_the_kernel():
    @epifuse.fuse
    def tail(x, alpha, shift=1.0):
        return x * alpha + shift

    for alpha in (1, 2.5, np.float32(3)):
        np.testing.assert_allclose(tail(X, alpha), X * np.float32(alpha) + 1, rtol=1e-6)
    assert len({tail.tail(X, alpha) for alpha in (1, 2, 2.5, -0.0, np.float32(3))}) == 1
    assert tail.tail(X, 2.0).scalars == ("alpha", "shift")


def test_what_is_neither_array_nor_number_belongs_to_the_trace():
    @epifuse.fuse
    def tail(x, kind="relu", weights=None):
        y = np.maximum(x, 0) if kind == "relu" else getattr(np, kind)(x)
        return y if weights is None else y * weights

    np.testing.assert_array_equal(tail(X), np.maximum(X, 0))
    np.testing.assert_array_equal(tail(X, "abs", BIAS), np.abs(X) * BIAS)


def test_facts_about_arguments_specialise():
    @epifuse.fuse
    def tail(x):
        return x / x.shape[-1]

    np.testing.assert_allclose(tail(X), X / 4, rtol=1e-6)
    np.testing.assert_allclose(tail(X[..., :2]), X[..., :2] / 2, rtol=1e-6)


def test_reserved_and_repeated_names():
    @epifuse.fuse
    def tail(input, *rest, **more):
        return input + rest[0] - rest[1] * more["scale"]

    np.testing.assert_allclose(tail(X, BIAS, X, scale=2.0), X + BIAS - X * 2, rtol=1e-5)


def test_several_results():
    @epifuse.fuse(dtype=["f32", "bool"])
    def tail(x):
        y = np.maximum(x * 2, 0)
        return y, y > 1

    y, large = tail(X)
    np.testing.assert_array_equal(y, np.maximum(X * 2, 0))
    np.testing.assert_array_equal(large, y > 1)


def test_reductions():
    @epifuse.fuse
    def tail(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True, ddof=0) + 1e-5)

    np.testing.assert_allclose(
        tail(X), (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5), rtol=1e-5
    )


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda x: np.linalg.inv(x), "inv"),
        (lambda x: np.convolve(x, x), "convolve"),
        (lambda x: np.cumsum(x), "cumsum"),
        (lambda x: x[x > 0], "a tensor for key"),
        (lambda x: x if x > 0 else -x, "np.where|torch.where"),
        (lambda x: sum(one for one in x), "loop"),
        (lambda x: x.reshap(3), "reshap"),
        (lambda x: x * float(x), "arguments of their own"),
        (lambda x: (x + 1).device, "computed value"),
        (lambda x: 3, "returns int"),
        (lambda x: x.argsort(), "argsort"),
        (lambda x: np.add.reduce(x), "reduce"),
    ],
)
def test_what_cannot_be_traced_is_named(function, text):
    with pytest.raises(epifuse.Untraceable, match=text):
        epifuse.fuse(function)(X)


def test_inspection():
    @epifuse.fuse
    def tail(x, bias):
        """Adds a bias."""
        return x + bias

    assert tail.__doc__ == "Adds a bias." and "fuse of" in repr(tail)
    assert tail.tail(X, BIAS).text == "input x, bias; x + bias"  # the order of the signature
    assert "__global__" in tail.source(X, BIAS)
    assert tail.plan(X, BIAS).elements == X.size
