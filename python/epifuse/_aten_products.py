"""ATen's products of matrices and its convolutions of images, whose kernel may host what stands behind them: the
backend's option "gemm". Imported by _group.py; a node counts where _partition.py has marked it."""

import torch

from ._aten import FLOATS, Unfit
from ._shapes import hint
from ._windows import listed

_aten = torch.ops.aten
HOSTED = "epifuse_hosts"  # in a node's meta: a kernel may compute this product
# Of a convolution: the fewest that were measured faster than cuDNN and the tail, on an H100. With 32 channels and 32
# filters tiles are mostly empty, and one kernel takes 2.9 times as long as both (docs/internals/plan/gemm.md).
FEWEST_CHANNELS, FEWEST_FILTERS = 64, 128


def _factors(call, left, right):
    """As the chain has them: tensors that lie in memory. The planner sees whether they do."""
    if call.made not in FLOATS:
        raise Unfit(f"its result is {call.made}".replace("torch.", ""))
    if any(call.tensor(name).dtype != call.made for name in (left, right)):
        raise Unfit("its factors are of other types")
    return call.value(left), call.value(right)


def _product(call, left, right):
    """Of f32 as TF32 where PyTorch's own products may be; Dynamo compiles anew where that changes."""
    is_tf32 = call.made is torch.float32 and torch.get_float32_matmul_precision() != "highest"
    return call.emit("matmul", *_factors(call, left, right), **({"tf32": True} if is_tf32 else {}))


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


def _convolution(call):
    """A bias of its type is an addition of its own by then (_layout.split_biases)."""
    if len(call.node_shape()) != 4 or call["transposed"]:
        raise Unfit("it is no convolution of images with filters")
    if call["groups"] != 1:
        raise Unfit(f"its channels are in {call['groups']} groups")
    if call["bias"] is not None:
        raise Unfit("its bias is of another type")
    filters, channels = map(hint, call.tensor("weight").shape[:2])
    if channels < FEWEST_CHANNELS or filters < FEWEST_FILTERS:
        raise Unfit(f"cuDNN is faster with fewer than {FEWEST_CHANNELS} channels or {FEWEST_FILTERS} filters")
    numbers = [listed(call[name], 2) for name in ("stride", "padding", "dilation")]
    if any(type(one) is not int for many in numbers for one in many):
        raise Unfit("its stride, padding or dilation is a symbol")
    return call.emit("conv2d", *_factors(call, "input", "weight"), None, *numbers)


def _scaled(call):
    """Of float8 factors with f32 scales of any of PyTorch's kinds: their shapes say which. MX and NVFP4 have others."""
    if call.made not in FLOATS:
        raise Unfit(f"its result is {call.made}".replace("torch.", ""))
    if call["scale_result"] is not None:
        raise Unfit("its result has a scale")
    if any(call.tensor(name).dtype is not torch.float32 for name in ("scale_a", "scale_b")):
        raise Unfit("its scales are not f32")
    made = call.emit("scaled_mm", *(call.value(name) for name in ("self", "mat2", "scale_a", "scale_b")))
    return made if call["bias"] is None else call.emit("add", made, call.value("bias", call.made))


ROWS = {
    _aten.convolution.default: _convolution,
    _aten.mm.default: _mm,
    _aten._scaled_mm.default: _scaled,
    _aten.bmm.default: _mm,
    _aten.addmm.default: _added("mat1", "mat2"),
    _aten.baddbmm.default: _added("batch1", "batch2"),
}


def mark(graph):
    """The products and convolutions of a graph may be part of kernels."""
    for node in graph.nodes:
        if node.target in ROWS:
            node.meta[HOSTED] = True


def is_hosted(node):
    return node.meta.get(HOSTED, False)
