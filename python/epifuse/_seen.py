"""ATen's views in the language of chains: reshapes as splits and merges, and what takes elements of dimensions or orders
them. A view is of a value that is being written, or of an operand that is read in other ways too. Used by _group.py."""

import torch

from ._aten import Unfit
from ._ops import Value

_aten = torch.ops.aten
RESHAPES = {_aten.view, _aten.reshape, _aten._unsafe_view, _aten.unsqueeze, _aten.squeeze}


def factored(before, after):
    """How a view's shape comes of another by splitting and merging neighbours: [(start, stop, new extents)] over
    `before`, or None. Extents may be symbols."""

    def same(a, b):
        return isinstance(a, int) == isinstance(b, int) and (
            a == b if isinstance(a, int) else a.node.expr == b.node.expr
        )

    steps, i, k = [], 0, 0
    while i < len(before) or k < len(after):
        if i < len(before) and k < len(after) and same(before[i], after[k]):
            i, k = i + 1, k + 1
            continue
        start, first = i, k
        left, right = 1, 1
        while True:
            if i < len(before) and (left <= right or k >= len(after)):
                if not isinstance(before[i], int):
                    return None
                left, i = left * before[i], i + 1
            elif k < len(after):
                if not isinstance(after[k], int):
                    return None
                right, k = right * after[k], k + 1
            else:
                return None
            if left == right and left != 1:
                break
            if i >= len(before) and k >= len(after):
                if left == right:
                    break
                return None
        steps.append((start, i, list(after[first:k])))
    return steps


def view(c, value, before, after):
    """A view as splits and merges, from the last dimension on, so that earlier ones keep their places."""
    steps = factored(before, after)
    if steps is None:
        raise Unfit("a view that is no splitting or merging of known extents")
    rank = len(before)
    for start, stop, extents in reversed(steps):
        if start == stop:  # new dimensions of one element
            for _ in extents:
                if rank == 0:
                    raise Unfit("a view of a single element")
                value = (
                    c.emit("unflatten", value, start, (1, -1))
                    if start < rank
                    else c.emit("unflatten", value, rank - 1, (-1, 1))
                )
                rank += 1
            continue
        if stop - start > 1:
            value = c.emit("flatten", value, start, stop - 1)
            rank -= stop - start - 1
        if not extents:  # dimensions of one element go
            if rank == 1:
                raise Unfit("a view that leaves a single element")
            value = c.emit("flatten", value, start - 1, start) if start else c.emit("flatten", value, 0, 1)
            rank -= 1
            continue
        for i, extent in enumerate(extents[:-1]):
            value = c.emit("unflatten", value, start + i, (extent, -1))
            rank += 1
    return value


# ---- views that take elements, or order dimensions


def _written(c, value, text):
    if not isinstance(value, Value):
        raise Unfit("a view of a number")
    return c.view(text, value)


def _numbers(many):
    many = list(many)
    if any(type(one) is not int for one in many):
        raise Unfit("a view by extents that are symbols")
    return "(" + "".join(f"{one}, " for one in many) + ")"


def _same_extent(one, other):
    return one is other or str(one) == str(other)


def _slice(c, value, before, after, dim=0, start=None, end=None, step=1):
    dim %= len(before)
    if step == 1 and _same_extent(before[dim], after[dim]):
        return value
    if type(before[dim]) is not int or any(type(one) not in (int, type(None)) for one in (start, end, step)):
        raise Unfit("a slice of an extent that is a symbol")
    start, end, step = slice(start, end, step).indices(before[dim])
    return _written(c, value, "{}[" + ":, " * dim + f"{start}:{end}:{step}]")


def _select(c, value, before, after, dim, index):
    return _written(c, value, f"select({{}}, {dim}, {_whole(index)})")


def _whole(index):
    if type(index) is not int:
        raise Unfit("an index that is a symbol")
    return index


def _permute(c, value, before, after, dims):
    return value if list(dims) == list(range(len(dims))) else _written(c, value, f"permute({{}}, {_numbers(dims)})")


def _transpose(c, value, before, after, dim0=0, dim1=1):
    if len(before) < 2 or dim0 % len(before) == dim1 % len(before):
        return value
    return _written(c, value, f"transpose({{}}, {dim0}, {dim1})")


def _expand(c, value, before, after, size, implicit=False):
    if len(before) == len(after) and all(map(_same_extent, before, after)):
        return value
    missing = len(after) - len(before)
    kept = [i >= missing and _same_extent(before[i - missing], one) for i, one in enumerate(after)]
    return _written(c, value, f"expand({{}}, {_numbers(-1 if keep else one for keep, one in zip(kept, after))})")


_TAKES = {
    _aten.slice: _slice,
    _aten.select: _select,
    _aten.permute: _permute,
    _aten.transpose: _transpose,
    _aten.t: _transpose,
    _aten.expand: _expand,
}
VIEWS = RESHAPES | set(_TAKES)


def write(c, packet, value, before, after, arguments):
    """The value of a view. `before`, `after`: the shapes of what is seen and of the view; `arguments`: those behind the
    first, by position and by name."""
    if packet in RESHAPES:
        return view(c, value, before, after)
    args, kwargs = arguments
    return _TAKES[packet](c, value, before, after, *args, **kwargs)
