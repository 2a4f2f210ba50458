"""What PyTorch reads at indices, as rows of the table of _rows_torch.py. Used by _libraries.py."""

from __future__ import annotations

from ._ops import Unsupported, Value
from ._rows import Const, Inert
from ._rows_torch import TABLE, everywhere

_row = TABLE.add


def _index(value, name):
    if not isinstance(value, Value) or value.dtype not in ("i32", "i64"):
        raise Unsupported(f"'{name}' takes indices of int32 or int64")
    return value


@everywhere("index_select")
def _index_select(c, input, dim: Const, index):
    return c.emit("index_select", input, dim, _index(index, "index_select"))


@everywhere("index_copy")
def _index_copy(c, input, dim: Const, index, source):
    return c.emit("index_copy", input, dim, _index(index, "index_copy"), source)


@everywhere("gather")
def _gather(c, input, dim: Const, index, *, sparse_grad: Inert = False):
    return c.emit("gather", input, dim, _index(index, "gather"))


@_row("F.embedding")
def _embedding(
    c,
    input,
    weight,
    padding_idx: Const = None,
    max_norm: Inert = None,
    norm_type: Const = 2.0,
    scale_grad_by_freq: Const = False,
    sparse: Const = False,
):
    return c.emit("embedding", _index(input, "embedding"), weight)


@_row("F.one_hot")
def _one_hot(c, tensor, num_classes: Const):
    return c.emit("one_hot", _index(tensor, "one_hot"), num_classes)


@_row("Tensor.[]")
def _at_indices(c, input, key):
    """`x[:, ids]`: one tensor of indices among whole slices. No method of PyTorch's has this name."""
    items = key if isinstance(key, tuple) else (key,)
    dim = next(i for i, one in enumerate(items) if isinstance(one, Value))
    if items.count(...) and items.index(...) < dim:
        dim -= len(items)
    if any(one is not ... and one != slice(None) for one in items if not isinstance(one, Value)):
        raise Unsupported("an index that is a tensor beside slices and numbers: index twice")
    return c.emit("take", input, _index(items[dim], "[]"), dim)
