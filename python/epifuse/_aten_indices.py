"""Rows of ATen's operations that read a tensor where another one's elements say: beside those of _aten_shapes.py. Imported
by _group.py."""

import torch
from torch.fx import Node

from ._aten import Unfit, _row

_INDICES = (torch.int32, torch.int64)


def _is_computed(call, node):
    """Whether the kernel computes a node, and does not only read it."""
    return node in call.writer.values and not hasattr(call.writer.values[node], "node")


def _value(call, node, kinds=None):
    """An operand of the kernel: what another element reads is not kept."""
    tensor = node.meta["val"]
    if kinds is not None and tensor.dtype not in kinds:
        raise Unfit(f"its indices are {tensor.dtype}".replace("torch.", ""))
    if tensor.dim() == 0:
        raise Unfit("it reads at a single index" if kinds else "it reads a single element")
    if _is_computed(call, node):
        raise Unfit("its indices are computed" if kinds else "what it reads at indices is computed")
    return call.writer.converted(node, tensor.dtype)


def _indices(call, node):
    return _value(call, node, _INDICES)


@_row("embedding")
def _embedding(call):
    return call.emit("embedding", _indices(call, call["indices"]), _value(call, call["weight"]))


@_row("index_select")
def _index_select(call):
    return call.emit("index_select", _value(call, call["self"]), call["dim"], _indices(call, call["index"]))


@_row("gather")
def _gather(call):
    return call.emit("gather", _value(call, call["self"]), call["dim"], _indices(call, call["index"]))


@_row("index.Tensor")
def _index(call):
    """`x[:, ids]`: negative indices count from the end."""
    given = [(dim, one) for dim, one in enumerate(call["indices"]) if one is not None]
    if len(given) != 1 or not isinstance(given[0][1], Node):
        raise Unfit("it reads at several indices")
    dim, index = given[0]
    return call.emit("take", _value(call, call["self"]), _indices(call, index), dim)
