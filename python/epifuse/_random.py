"""epifuse.dropout and epifuse.rand_like: random numbers that a kernel draws, of arrays and inside of epifuse.fuse."""

from __future__ import annotations

import functools
from typing import Any

from . import _tail
from ._proxy import Proxy, Untraceable, _apply
from ._rows import Row

__all__ = ["dropout", "rand_like"]


def dropout(input: Any, p: Any, seed: Any, offset: Any) -> Any:
    """input / (1 - p) where rand_like(input, seed, offset) >= p, else 0. The gradient draws the same numbers again."""
    return _called(_DROPOUT, _like_dropout, input, p, seed, offset)


def rand_like(input: Any, seed: Any, offset: Any) -> Any:
    """Uniform in [0, 1), an f32 for each element of input: a function of seed, offset and the element's row-major index.
    Seed and offset are whole numbers from 0 to below 2^53; another one compiles nothing."""
    return _called(_RAND_LIKE, _like_rand, input, seed, offset)


def _called(row, like, input, *numbers):
    if isinstance(input, Proxy) and input._library is not None:
        return _apply(input._library, row, like, (input, *numbers), {})
    if any(isinstance(one, Proxy) for one in (input, *numbers)):
        raise Untraceable(f"{row.name} of what is no tensor of the function")
    return _tail_of(row.name.removeprefix("epifuse."), tuple(row.signature.parameters))(input, *numbers)


@functools.cache
def _tail_of(function, parameters):
    numbers = parameters[1:]
    return _tail.compile(f"{function}(x, {', '.join(numbers)})", numbers)


# What the libraries make of such a call: its type and shape.
def _like_dropout(input, p, seed, offset):
    return input * 1.0


def _like_rand(input, seed, offset):
    return input.float() if hasattr(input, "float") else input.astype("float32")


def _dropout_row(c, input, p, seed, offset):
    return c.emit("dropout", input, p, seed, offset)


def _rand_like_row(c, input, seed, offset):
    return c.emit("rand_like", input, seed, offset)


_DROPOUT = Row("epifuse.dropout", _dropout_row)
_RAND_LIKE = Row("epifuse.rand_like", _rand_like_row)
