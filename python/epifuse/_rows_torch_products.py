"""PyTorch's products of matrices and its convolution of images as rows of the table of _rows_torch.py: the function's
chain runs in their kernel, or behind it. Used by _libraries.py."""

from __future__ import annotations

from ._exact import kind_of
from ._ops import Unsupported
from ._rows import Const, Either
from ._rows_torch import TABLE, everywhere
from ._windows import listed

_row = TABLE.add


def check_factors(name, left, right):
    """Integers wrap around in both libraries, and do not in a chain."""
    if any(kind_of(one) != "float" for one in (left, right)):
        raise Unsupported(f"'{name}' of integers: convert both to a float, or compute it before")
    if left.dtype != right.dtype:
        raise Unsupported(f"'{name}' of {left.dtype} and {right.dtype}: convert one before")


def product(c, name, left, right, *more):
    """A product as the chain has it. Vectors have a form of their own."""
    check_factors(name, left, right)
    if any(len(one.shape) < 2 for one in (left, right)):
        raise Unsupported(f"'{name}' of a vector: give it a dimension of one element (x[None])")
    return c.emit("linear" if name == "linear" else "matmul", left, right, *more)


@everywhere("matmul")
def _matmul(c, input, other: Either):
    return product(c, "matmul", input, other)


@everywhere("mm")
def _mm(c, input, mat2: Either):
    return product(c, "mm", input, mat2)


@everywhere("bmm")
def _bmm(c, input, mat2: Either):
    return product(c, "bmm", input, mat2)


@_row("F.linear")
def _linear(c, input, weight: Either, bias: Either = None):
    return product(c, "linear", input, weight, *(() if bias is None else (bias,)))


@everywhere("addmm")
def _addmm(c, input: Either, mat1: Either, mat2: Either, *, beta=1, alpha=1):
    made = product(c, "addmm", mat1, mat2)
    made = made if alpha == 1 else c.emit("mul", made, alpha)
    return c.emit("add", made, input if beta == 1 else c.emit("mul", input, beta))


def _padding(padding, filters, dilation):
    """PyTorch's words for it as numbers, one for the height and one for the width."""
    if padding == "valid":
        return [0, 0]
    if padding != "same":
        return listed(padding, 2)
    reach = [by * (size - 1) for by, size in zip(listed(dilation, 2), filters)]
    if any(one % 2 for one in reach):
        raise Unsupported("'conv2d' with padding='same' and filters of even size: one side gets more; pad before")
    return [one // 2 for one in reach]


@_row("F.conv2d torch.conv2d")
def _conv2d(
    c,
    input,
    weight: Either,
    bias: Either = None,
    stride: Const = 1,
    padding: Const = 0,
    dilation: Const = 1,
    groups: Const = 1,
):
    check_factors("conv2d", input, weight)
    if len(input.shape) != 4:
        raise Unsupported("'conv2d' of an image without a batch: give it a dimension of one element (x[None])")
    if groups != 1:
        raise Unsupported(f"'conv2d' with groups={groups}: a chain convolves all channels; compute it before")
    padding = _padding(padding, weight.shape[2:], dilation)
    return c.emit("conv2d", input, weight, bias, listed(stride, 2), padding, listed(dilation, 2))
