"""Rows of ATen's operations that join or move tensors, look at windows, or ask for positions: beside those of _aten.py.
Imported by _group.py."""

import torch

from ._aten import FLOATS, Unfit, _row, position
from ._ops import Value
from ._windows import Windows, parts


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
    if not dims or call.tensor("self").dim() == 0:
        return value
    return call.writer.chain.view(f"flip({{}}, ({', '.join(map(str, dims))},))", value)


@_row("roll")
def _roll(call):
    shifts, dims = call["shifts"], call["dims"]
    if not dims:
        raise Unfit("it rolls all elements as one line")
    return call.emit("roll", call.value("self"), _numbers(shifts), _numbers(dims))


@_row("constant_pad_nd")
def _pad(call):
    kind = _kind(call)
    value = call.writer.number(call["value"], kind, opmath=False)
    made = call.emit("pad", call.value("self", kind), _numbers(call["pad"]), value=value)
    return call.writer.cast(made, torch.bool) if kind is torch.bool else made


def _numbers(given):
    many = list(given) if isinstance(given, (list, tuple)) else [given]
    if any(type(one) is not int for one in many):
        raise Unfit("it moves by an extent that is a symbol")
    return many


# ---- windows


def _extents(call, rank):
    return list(call.tensor("self").shape[-rank:])


def _windows(call, rank):
    given = call.given
    found = Windows(
        _extents(call, rank),
        call["kernel_size"],
        call["stride"],
        call["padding"],
        given.get("dilation", 1),
        call["ceil_mode"],
    )
    if found.overlap and call.is_computed("self"):
        raise Unfit("its windows overlap, and would compute what they look at several times")
    return found


def _max_pool(rank, pair):
    def row(call):
        made = _windows(call, rank).largest(call, call.value("self", call.real()))
        return (made, None) if pair else made

    return row


def _avg_pool(rank):
    def row(call):
        given, value = call.given, call.value("self", _float(call))
        divisor, counts = given.get("divisor_override"), given.get("count_include_pad", True)
        return _windows(call, rank).mean(call, value, divisor, counts)

    return row


def _float(call):
    if call.made not in FLOATS:
        raise Unfit("a mean of integers")
    return call.made


def _adaptive(name, rank, pair):
    def row(call):
        sizes = parts(_extents(call, rank), list(call.node_shape()[-rank:]))
        kind = _float(call) if name == "adaptive_avg_pool" else call.real()
        made = call.emit(f"{name}{rank}d", call.value("self", kind), sizes)
        return (made, None) if pair else made

    return row


for _rank in (1, 2, 3):
    _row(f"max_pool{_rank}d_with_indices")(_max_pool(_rank, pair=True))
    _row(f"max_pool{_rank}d")(_max_pool(_rank, pair=False))
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
