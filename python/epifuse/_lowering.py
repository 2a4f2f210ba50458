"""How Inductor lowers the operators of _torch_ops.py, once it knows how every tensor of the graph lies: as calls of the
launch itself; over an operand that nobody needs any more, where there is one; with copies that our kernels make, where
rows are wanted in order. Used by _inductor.py."""

import functools
import math

import torch
from torch._inductor import config, ir
from torch._inductor.lowering import register_lowering
from torch._inductor.virtualized import V

from . import _partition, _shapes
from ._arrays import dtype_name
from ._torch_ops import facts_of, spell_results


class _Launch(ir.FallbackKernel):
    """A call of the launch: the dispatcher would take ten times as long."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        over = self.op_overload is torch.ops.epifuse.tail_over.default
        self.python_kernel_name = f"torch.ops.epifuse.launch{'_over' if over else ''}"


@functools.lru_cache(1)
def register():
    """Teaches Inductor."""
    register_lowering(torch.ops.epifuse.tail.default, type_promotion_kind=None)(_lower)
    register_lowering(torch.ops.epifuse.tail_in_order.default, type_promotion_kind=None)(_lower_in_order)


def _lower(inputs, scalars, chain, results):
    inputs = [ir.ExternKernel.realize_input(one) for one in inputs]
    for one in inputs:
        if ir.is_storage_and_layout(one):
            ir.as_storage_and_layout(one, freeze=True)
    position = _dead(inputs, scalars, chain, results) if config.inplace_buffers else None
    if position is None:
        return _launched(inputs, scalars, chain, results)
    over = inputs.pop(position)
    _Launch.create(torch.ops.epifuse.tail_over.default, over, inputs, scalars, chain, results, position)
    return [ir.TensorBox(over)]


def _launched(inputs, scalars, chain, results):
    made = _Launch.create(torch.ops.epifuse.tail.default, inputs, scalars, chain, results)
    # New memory, whatever the operands: a bias seen as [C, 1, 1] would make Triton read the result by single elements.
    V.graph.unaligned_buffers.difference_update([one.get_name() for one in made])
    return [ir.TensorBox.create(one) for one in made]


# ---- in place: the graph needs one tensor less, and the L2 cache holds twice as large ones. Beyond it an H100 writes as fast
# elsewhere (a kernel of 1 GB: 2.97 TB/s in place, 2.98 apart)


def _dead(inputs, scalars, chain, results):
    """The position of an operand that the one result may be written over, or None."""
    if results.count(",") > 0:
        return None
    buffers = [_buffer_of(one) for one in inputs]
    candidates = [
        i
        for i, (one, buffer) in enumerate(zip(inputs, buffers))
        if isinstance(one, ir.StorageBox) and _owns_its_memory(buffer) and buffers.count(buffer) == 1
    ]
    candidates = [i for i in candidates if not _is_read_elsewhere(buffers[i])]
    if not candidates:
        return None
    with V.graph.fake_mode:
        operands = [ir.ir_node_to_tensor(one) for one in inputs]
        (result,) = torch.ops.epifuse.tail(operands, [0.0] * len(scalars), chain, results)
    candidates = [i for i in candidates if _lies_as(buffers[i].layout, result)]
    return candidates[0] if candidates and _is_whole(result, chain, operands) else None


def _buffer_of(value):
    """The buffer behind a node's value, through views; None where it is none, or computed where it is read."""
    while isinstance(value, (ir.MutableBox, ir.BaseView)):
        value = value.data
    return value if isinstance(value, ir.Buffer) else None


def _owns_its_memory(buffer):
    """Whether the buffer is memory that the graph allocates for this result alone: no input, no constant, and no part
    or other name of another buffer."""
    if type(getattr(buffer, "layout", None)) is not ir.FixedLayout or buffer.layout.offset != 0:
        return False
    if isinstance(buffer, ir.MultiOutput):
        kernel = buffer.inputs[0]
        if not isinstance(kernel, _Launch):
            returns = getattr(getattr(kernel, "op_overload", None), "_schema", None)
            if returns is None or [str(one.type) for one in returns.returns] != ["Tensor"]:
                return False
        if kernel.get_inputs_that_alias_output() or kernel.get_mutation_names():
            return False
    elif not isinstance(buffer, (ir.ComputedBuffer, ir.ExternKernelOut, ir.ExternKernelAlloc)):
        return False
    return not buffer.get_inputs_that_alias_output() and not buffer.get_mutation_names()


def _is_read_elsewhere(buffer):
    """Whether anything but the launch that is lowered now needs the buffer: a later node, the caller, a view, or
    a computation that Inductor has put off. Nodes that nobody needs any more have left the environment."""
    # Inductor would compute what it has put off when the buffer is marked as written: behind the launch, too late.
    if any(_buffer_of(one) is None for one in V.graph.name_to_users.get(buffer.get_name(), ())):
        return True
    for node, value in V.graph.env.items():
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if _buffer_of(one) is buffer and set(node.users) != {V.graph.current_node}:
                return True
    return False


def _is_whole(result, chain, operands):
    """Whether the result has all the elements that the chain computes with: then each of an operand that lies as it
    does is read by those who write it there. `sum(x * v, 1)` over `v` would write what other rows still read."""
    names, values, _, elementwise = facts_of(chain)
    if elementwise:
        return True
    shapes = _shapes.value_shapes(values, {name: tuple(one.shape) for name, one in zip(names, operands)})
    most = result.numel()
    return all(
        V.graph.sizevars.statically_known_equals(_expression(count), _expression(most))
        or _shapes.hint(count) < _shapes.hint(most)
        for count in map(math.prod, shapes)
    )


def _lies_as(layout, tensor):
    """Whether a layout is a fake tensor's, but for the strides of single elements, which mean nothing."""
    known = V.graph.sizevars
    if layout.device != tensor.device or layout.dtype != tensor.dtype or len(layout.size) != tensor.dim():
        return False
    return all(
        known.statically_known_equals(size, _expression(extent))
        and (known.statically_known_equals(size, 1) or known.statically_known_equals(stride, _expression(step)))
        for size, stride, extent, step in zip(layout.size, layout.stride, tensor.shape, tensor.stride())
    )


def _expression(value):
    return value.node.expr if isinstance(value, torch.SymInt) else value


# ---- rows in order


def _lower_in_order(inputs, scalars, chain, results):
    nodes = V.graph.current_node.args[0]
    return _lower([_in_order(one, node) for one, node in zip(inputs, nodes)], scalars, chain, results)


def _in_order(value, node):
    """The operand as it lay when the graph was traced. What is still to be computed Inductor computes in that order;
    what lies otherwise a kernel of ours copies. With Inductor's copy, 550 µs on an H100, problem 17 of KernelBench took
    1.58 ms in f16, with ours 1.39."""
    wanted = node.meta["val"]
    layout = getattr(_buffer_of(value), "layout", None)
    plain = isinstance(value, ir.TensorBox) and isinstance(value.data, ir.StorageBox)
    order = _partition.memory_order(wanted)
    if (
        plain
        and type(layout) is ir.FixedLayout
        and order is not None
        and _partition.has_type(wanted)
        and layout.dtype == wanted.dtype
        and not _lies_as(layout, wanted)
    ):
        return _launched([value], [], "x0", spell_results([dtype_name(wanted.dtype)], [order]))[0]
    return ir.ExternKernel.require_exact_strides(value, wanted.stride())
