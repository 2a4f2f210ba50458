"""PyTorch's products of matrices as rows of the table of _rows_torch.py: the function's chain runs in the product's kernel, or behind it. Used by
_libraries.py."""

from __future__ import annotations

from ._exact import kind_of
from ._ops import Unsupported
from ._rows import Either
from ._rows_torch import TABLE, everywhere

_row = TABLE.add


def product(c, name, left, right, *more):
    """A product as the chain has it. Integers wrap around in both libraries, and do not in a chain; vectors have a form of their own."""
    for one in (left, right):
        if kind_of(one) != "float":
            raise Unsupported(f"'{name}' of integers: convert both to a float, or compute it before")
        if len(one.shape) < 2:
            raise Unsupported(f"'{name}' of a vector: give it a dimension of one element (x[None])")
    if left.dtype != right.dtype:
        raise Unsupported(f"'{name}' of {left.dtype} and {right.dtype}: convert one before")
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
