"""epifuse.dropout and epifuse.rand_like: of arrays, in traced functions, and under autograd."""

import pathlib
import sys

import numpy
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
from chain_functions import FUNCTIONS  # noqa: E402

import epifuse  # noqa: E402

SEED, OFFSET = 2**52 + 99, 2**40 + 3


def numbers(shape):
    """By the test's own Philox."""
    return FUNCTIONS["rand_like"](torch.empty(shape, dtype=torch.float64), SEED, OFFSET)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_of_arrays(dtype):
    x = torch.randn(6, 37).to(dtype)
    found = epifuse.rand_like(x, SEED, OFFSET)
    assert found.dtype == torch.float32
    assert torch.equal(found.double(), numbers(x.shape))
    y = epifuse.dropout(x, 0.25, SEED, OFFSET)
    assert y.dtype == dtype
    assert torch.equal(y == 0, numbers(x.shape) < 0.25)


def test_of_numpy_arrays_and_strides():
    x = numpy.ones((8, 9), dtype=numpy.float32)
    assert numpy.array_equal(epifuse.rand_like(x.T, SEED, OFFSET), numbers((9, 8)).float().numpy())
    assert numpy.array_equal(epifuse.rand_like(x[::2], SEED, OFFSET), numbers((4, 9)).float().numpy())


@epifuse.fuse
def tail(x, bias, seed):
    return epifuse.dropout(F.gelu(x + bias), 0.5, seed, OFFSET) + x


def test_in_a_traced_function():
    x, bias = torch.randn(5, 64), torch.randn(64)
    y = tail(x, bias, SEED)
    kept = numbers(x.shape) >= 0.5
    assert torch.allclose(y, F.gelu(x + bias) * kept * 2 + x, atol=1e-6)
    assert "rand_like" in tail.tail(x, bias, SEED).text
    assert tail.tail(x, bias, SEED) is tail.tail(x, bias, SEED + 1)  # another seed compiles nothing
    assert not torch.equal(tail(x, bias, SEED + 1), y)
    fused = epifuse.fuse(lambda x: epifuse.rand_like(x, SEED, OFFSET) < 0.5)
    assert torch.equal(fused(x), numbers(x.shape) < 0.5)


def test_gradients_drop_what_the_result_dropped():
    x = torch.randn(5, 64, requires_grad=True)
    bias = torch.randn(64, requires_grad=True)
    tail(x, bias, SEED).sum().backward()
    dropped = (numbers(x.shape) >= 0.5) * 2.0
    other, other_bias = x.detach().clone().requires_grad_(), bias.detach().clone().requires_grad_()
    (F.gelu(other + other_bias) * dropped + other).sum().backward()
    assert torch.allclose(x.grad, other.grad.to(x.grad.dtype), atol=1e-5)
    assert torch.allclose(bias.grad, other_bias.grad.to(bias.grad.dtype), atol=1e-4)


def test_refused():
    x = torch.randn(4)
    for seed in (-1, 0.5, 2**53):
        with pytest.raises(ValueError, match="whole number from 0 to below 2\\^53"):
            epifuse.rand_like(x, seed, 0)
    with pytest.raises(epifuse.Untraceable, match="epifuse.dropout"):
        epifuse.fuse(lambda x: F.dropout(x, 0.5))(x)
    with pytest.raises(epifuse.Untraceable, match="no tensor"):
        epifuse.fuse(lambda x, seed: x + epifuse.rand_like(1.0, seed, 0))(x, 3)
