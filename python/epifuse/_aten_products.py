"""ATen's products of matrices, whose kernel may host what stands behind them: the backend's option "gemm". Imported by _group.py; a
node counts where _partition.py has marked it."""

import torch

from ._aten import FLOATS, Unfit

_aten = torch.ops.aten
HOSTED = "epifuse_hosts"  # in a node's meta: a kernel may compute this product


def _product(call, left, right):
    """As the chain has it: of tensors that lie in memory. The planner sees whether they do."""
    if call.made not in FLOATS:
        raise Unfit(f"its result is {call.made}".replace("torch.", ""))
    if any(call.tensor(name).dtype != call.made for name in (left, right)):
        raise Unfit("its factors are of other types")
    return call.emit("matmul", call.value(left), call.value(right))


def _mm(call):
    return _product(call, "self", "mat2")


def _added(left, right):
    def row(call):
        made = _product(call, left, right)
        if call["alpha"] != 1:
            made = call.emit("mul", made, call.writer.number(call["alpha"], call.made, opmath=True))
        bias = call.value("self", call.made)
        if call["beta"] != 1:
            bias = call.emit("mul", bias, call.writer.number(call["beta"], call.made, opmath=True))
        return call.emit("add", made, bias)

    return row


ROWS = {
    _aten.mm.default: _mm,
    _aten.bmm.default: _mm,
    _aten.addmm.default: _added("mat1", "mat2"),
    _aten.baddbmm.default: _added("batch1", "batch2"),
}


def mark(graph):
    """The products of a graph may be part of kernels."""
    for node in graph.nodes:
        if node.target in ROWS:
            node.meta[HOSTED] = True


def is_hosted(node):
    return node.meta.get(HOSTED, False)
