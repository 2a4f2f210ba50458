"""Views: what an index is in the language of chains, and the shapes that views give. Used by the rows of PyTorch and
NumPy, and by _shapes.py."""

from __future__ import annotations

import math
import numbers

from ._ops import Unsupported
from ._windows import count_along


def index_text(key):
    """`[..., :128]`, for what stands between Python's brackets."""
    return "[" + ", ".join(_item(one) for one in (key if isinstance(key, tuple) else (key,))) + "]"


def _item(one):
    if one is Ellipsis:
        return "..."
    if one is None:
        return "None"
    if isinstance(one, slice):
        start, stop, step = ("" if at is None else _whole(at) for at in (one.start, one.stop, one.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")
    return _whole(one)


def _whole(one):
    if isinstance(one, bool) or not isinstance(one, numbers.Integral):
        raise Unsupported(f"an index that is a {type(one).__name__}: chains take integers, slices, None and '...'")
    return str(int(one))


class _Several:
    """The shapes that chunk and split give, by number."""

    def __init__(self, shape, dim, size):
        self._shape, self._dim, self._size = shape, dim % len(shape), size

    def __getitem__(self, number):
        extent = self._shape[self._dim]
        taken = min(self._size, extent - number * self._size) if extent else 0
        return _replaced(self._shape, self._dim, taken)


class _Windows:
    """The shape that each element of the windows along a dimension gives: as many as there are windows."""

    def __init__(self, shape, dim, size, stride, dilation=1, padding=0, ceil_mode=False, value=0):
        count = count_along(shape[dim], size, stride, dilation, padding, ceil_mode)
        self._shape = _replaced(shape, dim % len(shape), count)

    def __getitem__(self, number):
        return self._shape


class _Rolled:
    """The shapes of what comes in at the beginning of a rolled dimension, and of the rest."""

    def __init__(self, shape, shift, dim):
        self._shape, self._dim = shape, dim % len(shape)
        self._first = shift % shape[dim] if shape[dim] else 0

    def __getitem__(self, number):
        extent = self._shape[self._dim]
        return _replaced(self._shape, self._dim, extent - self._first if number else self._first)


def _padded(shape, sizes):
    extents = list(shape)
    for i, (before, behind) in enumerate(zip(sizes[::2], sizes[1::2])):
        extents[-1 - i] += before + behind
    return tuple(extents)


class _Shape(tuple):
    """Stands for a value of that shape in the text of a view."""

    def __getitem__(self, key):
        items = key if isinstance(key, tuple) else (key,)
        left = len(self) - sum(one is not None and one is not Ellipsis for one in items)
        extents, result = iter(self), []
        for one in items if Ellipsis in items else (*items, Ellipsis):
            if one is Ellipsis:
                result += [next(extents) for _ in range(left)]
            elif one is None:
                result.append(1)
            elif isinstance(one, slice):
                extent = next(extents)
                result.append(extent if one == slice(None) else len(range(*one.indices(extent))))
            else:
                next(extents)
        return tuple(result)


def _replaced(shape, dim, extent):
    return (*shape[:dim], extent, *shape[dim + 1 :])


def _expanded(shape, sizes):
    missing = len(sizes) - len(shape)
    return tuple(shape[i - missing] if size == -1 else size for i, size in enumerate(sizes))


def _reshaped(shape, sizes):
    known = -math.prod(sizes)
    return tuple(math.prod(shape) // known if size == -1 else size for size in sizes)


def _unfolded(shape, dim, size, step, padding=0, ceil_mode=False, value=0):
    return (*_replaced(shape, dim % len(shape), count_along(shape[dim], size, step, 1, padding, ceil_mode)), size)


def _transposed(shape, a, b):
    order = list(shape)
    order[a], order[b] = order[b], order[a]
    return tuple(order)


_VIEWS = {
    "narrow": lambda shape, dim, start, length: _replaced(tuple(shape), dim % len(shape), length),
    "squeeze": lambda shape, dim: tuple(one for i, one in enumerate(tuple(shape)) if i != dim % len(shape)),
    "permute": lambda shape, dims: tuple(tuple(shape)[dim % len(shape)] for dim in dims),
    "transpose": lambda shape, a, b: _transposed(tuple(shape), a, b),
    "expand": lambda shape, sizes: _expanded(tuple(shape), sizes),
    "reshape": lambda shape, sizes: _reshaped(tuple(shape), sizes),
    "chunk": lambda shape, count, dim: _Several(tuple(shape), dim, -(-tuple(shape)[dim] // count)),
    "window": lambda shape, *how, **more: _Windows(tuple(shape), *how, **more),
    "unfold": lambda shape, *how, **more: _unfolded(tuple(shape), *how, **more),
    "roll_parts": lambda shape, shift, dim: _Rolled(tuple(shape), shift, dim),
    "pad": lambda shape, sizes, **value: _padded(tuple(shape), sizes),
    "split": lambda shape, size, dim: _Several(tuple(shape), dim, size),
}


_WORDS = {"true": True, "false": False, "inf": math.inf, "nan": math.nan}


def shape_of(view, shape):
    """The shape of `view`, as Launcher.values() writes it ("_[..., :128]", "permute(_, (1, 0))"), of a value. The text is
    the library's own, and Python's syntax: it names nothing but these functions."""
    return tuple(eval(view, {"__builtins__": {}, **_WORDS, **_VIEWS}, {"_": _Shape(shape)}))
