"""Rows of ATen's operations that join tensors, look at windows, or ask for positions: beside those of _aten.py. Windows
are as the library has them: without padding, all of one size. Imported by _group.py."""

import torch

from ._aten import FLOATS, Unfit, _row, position
from ._ops import Value
from ._shapes import hint


def _kind(call):
    return call.made if call.made is torch.bool else call.real()


# ---- joined tensors


def _joined(call, planes, dim):
    if any(not isinstance(one, Value) for one in planes):
        raise Unfit("it joins numbers")
    return call.emit("cat", tuple(planes), dim) if len(planes) > 1 else planes[0]


@_row("cat")
def _cat(call):
    return _joined(call, [call.writer.converted(one, _kind(call)) for one in call["tensors"]], call["dim"])


@_row("stack")
def _stack(call):
    dim = call["dim"] % call.node.meta["val"].dim()
    values = [call.writer.converted(one, _kind(call)) for one in call["tensors"]]
    if call.node.meta["val"].dim() == 1:
        raise Unfit("it joins single elements")
    return _joined(call, [call.writer.chain.view(f"unsqueeze({{}}, {dim})", one) for one in values], dim)


@_row("flip")
def _flip(call):
    dims, value = call["dims"], call.value("self")
    return call.writer.chain.view(f"flip({{}}, ({', '.join(map(str, dims))},))", value) if dims else value


# ---- windows


def _list(given, count):
    many = list(given) if isinstance(given, (list, tuple)) else [given]
    return many * count if len(many) == 1 else many


class _Windows:
    """The windows of a pooling: their size and their stride, by dimension."""

    def __init__(self, call, rank):
        self.call, self.rank = call, rank
        self.size = _list(call["kernel_size"], rank)
        self.stride = _list(call["stride"] or self.size, rank)
        self.dilation = _list(call.given.get("dilation", 1), rank)
        self.extents = _extents(call, rank)
        if any(_list(call["padding"], rank)):
            raise Unfit("its windows are padded")
        reach = [by * (size - 1) for by, size in zip(self.dilation, self.size)]
        within = [(extent - far - 1) // step + 1 for extent, far, step in zip(self.extents, reach, self.stride)]
        if within != list(map(hint, call.node_shape()[-rank:])):
            raise Unfit("its last windows reach beyond the input")
        if any(far >= step for far, step in zip(reach, self.stride)) and call.is_computed("self"):
            raise Unfit("its windows overlap, and would compute what they look at several times")

    def are_parts(self):
        """Whether the windows are the input, each element once."""
        return self.size == self.stride and set(self.dilation) == {1} and self.are_even()

    def are_even(self):
        return all(extent % size == 0 for extent, size in zip(self.extents, self.size))


def _extents(call, rank):
    extents = call.tensor(next(iter(call.given))).shape[-rank:]
    if any(type(one) is not int for one in extents):
        raise Unfit("its windows are of extents that are symbols")
    return list(extents)


MOST = 64  # elements of a window that is taken apart


def _several(call, windows):
    """Whether windows are runs to be reduced: they are too large to be taken apart."""
    count = 1
    for size in windows.size:
        count *= size
    if count > MOST and not windows.are_parts():
        raise Unfit(f"its windows overlap, and have more than {MOST} elements")
    return count > MOST


def _max_pool(rank, pair):
    def row(call):
        windows, value = _Windows(call, rank), call.value("self", call.real())
        if _several(call, windows):
            made = _parts(call, "adaptive_max_pool", value, rank)
        else:
            made = call.emit(f"max_pool{rank}d", value, windows.size, windows.stride, windows.dilation)
        return (made, None) if pair else made

    return row


def _parts(call, name, value, rank):
    return call.emit(f"{name}{rank}d", value, list(call.node_shape()[-rank:]))


for _rank in (2, 3):
    _row(f"max_pool{_rank}d_with_indices")(_max_pool(_rank, pair=True))
for _rank in (1, 2, 3):
    _row(f"max_pool{_rank}d")(_max_pool(_rank, pair=False))


def _avg_pool(rank):
    def row(call):
        windows, value = _Windows(call, rank), call.value("self", _float(call))
        divisor = call.given.get("divisor_override")
        if not _several(call, windows):
            more = {} if divisor is None else {"divisor_override": divisor}
            return call.emit(f"avg_pool{rank}d", value, windows.size, windows.stride, **more)
        if divisor is not None:
            raise Unfit(f"its windows have more than {MOST} elements, and a divisor of its own")
        return _parts(call, "adaptive_avg_pool", value, rank)

    return row


def _float(call):
    if call.made not in FLOATS:
        raise Unfit("a mean of integers")
    return call.made


def _adaptive(name, rank, pair):
    def row(call):
        sizes = list(call.node_shape()[-rank:])
        if any(type(one) is not int for one in sizes):
            raise Unfit("its windows are of extents that are symbols")
        if any(extent % size for extent, size in zip(_extents(call, rank), sizes)):
            raise Unfit("its windows are of several sizes")
        kind = _float(call) if name == "adaptive_avg_pool" else call.real()
        made = call.emit(f"{name}{rank}d", call.value("self", kind), sizes)
        return (made, None) if pair else made

    return row


for _rank in (1, 2, 3):
    _row(f"avg_pool{_rank}d")(_avg_pool(_rank))
    _row(f"adaptive_avg_pool{_rank}d", f"_adaptive_avg_pool{_rank}d")(_adaptive("adaptive_avg_pool", _rank, False))
    _row(f"adaptive_max_pool{_rank}d")(_adaptive("adaptive_max_pool", _rank, True))


# ---- sub-pixels


def _pixels(name, factor):
    def row(call):
        if len(call.node_shape()) != 4:
            raise Unfit("it is not of images in a batch")
        return call.emit(name, call.value("self"), call[factor])

    return row


_row("pixel_shuffle")(_pixels("pixel_shuffle", "upscale_factor"))
_row("pixel_unshuffle")(_pixels("pixel_unshuffle", "downscale_factor"))


# ---- positions


for _one in ("argmax", "argmin"):
    _row(_one)(lambda call, _one=_one: position(call, _one))


def _triangle(name):
    def row(call):
        made = call.emit(name, call.value("self"), call["diagonal"])
        return call.writer.cast(made, torch.bool) if call.made is torch.bool else made

    return row


for _one in ("tril", "triu"):
    _row(_one)(_triangle(_one))
