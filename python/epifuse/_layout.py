"""What is done to a graph before it is cut. Its fake tensors are made to lie as eager PyTorch's tensors will. The biases
of convolutions join the tails, which saves PyTorch a kernel; and where eager PyTorch runs them, they run in channels-last
order, which tensor cores want: their operands are copied, and what follows stays in that order until it leaves the graph.
Used by _torch_backend.py."""

import operator

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node

from . import _partition
from ._shapes import hint

_aten = torch.ops.aten
LAST = torch.channels_last


def _is_last(tensor):
    return isinstance(tensor, torch.Tensor) and tensor.dim() == 4 and tensor.is_contiguous(memory_format=LAST)


def _uses_tensor_cores(tensor):
    if tensor.dtype in (torch.float16, torch.bfloat16):
        return True
    try:
        return tensor.dtype is torch.float32 and torch.backends.cudnn.allow_tf32
    except (
        RuntimeError
    ):  # the application has set the precision in PyTorch's newer way, which the older one cannot read
        return False


def _convolutions(graph):
    """Those of images, in one group (where a channel sees few others there is little to gain), of known extents (asking
    of symbols would bind them)."""
    for node in graph.nodes:
        if node.target is _aten.convolution.default and node.args[8] == 1:
            tensors = [_partition.tensor_of(one) for one in (node, *node.args[:2])]
            if tensors[0].dim() == 4 and all(isinstance(extent, int) for tensor in tensors for extent in tensor.shape):
                yield node


def _leaves_as_an_image(graph):
    """Whether a result of the graph would lie otherwise than eager PyTorch's, on which its caller may count."""
    results = next(node for node in graph.nodes if node.op == "output").all_input_nodes
    return any(
        tensor is not None and tensor.dim() == 4 and not _is_last(tensor)
        for tensor in map(_partition.tensor_of, results)
    )


def _copied(graph, before, node):
    """`node` in channels-last order."""
    if _is_last(_partition.tensor_of(node)):
        return node
    with graph.inserting_before(before):
        copy = graph.call_function(_aten.clone.default, (node,), {"memory_format": LAST})
    copy.meta["val"] = _partition.tensor_of(node).clone(memory_format=LAST)
    return copy


def _again(node):
    """What the node gives now that its operands lie otherwise."""

    def value(one):
        return one.meta["val"] if isinstance(one, Node) else one

    if node.target in _partition.RESHAPES:
        node.target = _aten.reshape.default  # a view where it can be one
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), value)
    return node.target(*args, **kwargs)


def _refresh(node):
    """What the node gives now that convolutions are turned."""
    made = _again(node)
    first = made[0] if isinstance(made, (tuple, list)) else made
    # A kernel of ours writes any order: it stays in that of its operand.
    if (
        isinstance(first, torch.Tensor)
        and first.dim() == 4
        and isinstance(node.target, torch._ops.OpOverload)
        and _partition.row_of(node) is not None
    ):
        if any(
            _is_last(one.meta["val"]) and one.meta["val"].shape == first.shape
            for one in node.all_input_nodes
            if "val" in one.meta
        ):
            kept = first.contiguous(memory_format=LAST)
            made = (kept, *made[1:]) if isinstance(made, (tuple, list)) else kept
    node.meta["val"] = made


def channels_last(graph, everywhere):
    """Turns the graph's convolutions of images. `everywhere`: also where a result leaves the graph in that order, and
    where nothing says that it is faster. Returns how many were turned."""
    chosen = [node for node in _convolutions(graph) if everywhere or _uses_tensor_cores(_partition.tensor_of(node))]
    if not chosen or (not everywhere and _leaves_as_an_image(graph)):
        return 0
    if any(node.target is _aten.as_strided.default for node in graph.nodes):
        return 0  # it counts on how its operand lies
    changed = set()
    for node in chosen:
        node.args = (*(_copied(graph, node, one) for one in node.args[:2]), *node.args[2:])
        changed.add(node)
    for node in graph.nodes:
        if node.op == "call_function" and (node in changed or any(one in changed for one in node.all_input_nodes)):
            _refresh(node)
            changed.add(node)
    return len(chosen)


# ---- fake tensors that lie otherwise than what PyTorch computes

# Operations whose fake results follow the wrong operand, and operations of the same promotion whose fake results are
# right. All run through TensorIterator, which has one rule for how results lie.
LIES_LIKE = {
    _aten.copysign.Tensor: _aten.atan2.default,
    _aten.logaddexp.default: _aten.atan2.default,
    _aten.logaddexp2.default: _aten.atan2.default,
    _aten.special_xlog1py.default: _aten.atan2.default,
    _aten.xlogy.Tensor: _aten.atan2.default,
    _aten.logical_and.default: _aten.eq.Tensor,
    _aten.logical_or.default: _aten.eq.Tensor,
    _aten.logical_xor.default: _aten.eq.Tensor,
    _aten.heaviside.default: _aten.eq.Tensor,
    _aten.div.Tensor_mode: _aten.remainder.Tensor,
    _aten.floor_divide.default: _aten.remainder.Tensor,
    _aten.logit_backward.default: _aten.mul.Tensor,
    _aten.native_dropout_backward.default: _aten.mul.Tensor,
    _aten.ldexp.Tensor: lambda value, exponent: value * exponent.contiguous(),
}
# Operations whose results are contiguous: where, and whether an image in channels-last order stays so. Their fake
# results lie as the operand does.
_CONTIGUOUS = {
    _aten.pow.Scalar: (("cpu", "cuda"), False),
    _aten.log_sigmoid_forward.default: (("cpu",), False),
    _aten._native_batch_norm_legit_no_training.default: (("cpu",), True),
}


def _as_computed(node):
    """What the node gives, lying as PyTorch's kernel writes it."""
    made = node.meta["val"]
    if node.target in _CONTIGUOUS:
        devices, keeps_images = _CONTIGUOUS[node.target]
        first = _partition.tensor_of(node)
        if first.device.type not in devices or first.is_contiguous() or (keeps_images and _is_last(first)):
            return made
        return (first.contiguous(), *made[1:]) if isinstance(made, (tuple, list)) else first.contiguous()
    operands = [_partition.tensor_of(one) for one in node.args[:2]]
    if node.target not in LIES_LIKE or any(one is None for one in operands):
        return made
    order = order_of(LIES_LIKE[node.target], *operands)
    return made if order in (None, _partition.memory_order(made)) else _in_order(made, order)


def order_of(operation, *operands):
    """How what the operation makes of fake tensors lies. Extents may be symbols: an example of each says it."""
    with unset_fake_temporarily():
        return _partition.memory_order(operation(*map(_on_meta, operands)))


def _on_meta(tensor):
    extents, strides = ([hint(one) for one in given] for given in (tensor.shape, tensor.stride()))
    return torch.empty_strided(extents, strides, dtype=tensor.dtype, device="meta")


def _in_order(tensor, order):
    back = sorted(range(len(order)), key=order.__getitem__)
    return tensor.permute(order).contiguous().permute(back)


def lie_as_computed(graph):
    """Gives every node's fake tensor the strides that its tensor will have: results, and what as_strided sees, lie as
    eager PyTorch's."""
    changed = set()
    for node in graph.nodes:
        if node.op == "call_function" and "val" in node.meta:
            before = node.meta["val"]
            if any(one in changed for one in node.all_input_nodes):
                node.meta["val"] = _again(node)
            node.meta["val"] = _as_computed(node)
            if node.meta["val"] is not before:
                changed.add(node)


# ---- views that come several at a time


def _part(node, number):
    """The operation and arguments of one of several views, or nothing where extents are symbols."""
    seen, place = node.args[0], 1 if node.target is _aten.unbind.int else 2
    dim = node.kwargs.get("dim", node.args[place] if len(node.args) > place else 0)
    if place == 1:
        return _aten.select.int, (seen, dim, number)
    extents = [one.shape[dim] for one in node.meta["val"][: number + 1]]
    if any(type(one) is not int for one in (*extents, _partition.tensor_of(seen).shape[dim])):
        return None
    return _aten.slice.Tensor, (seen, dim, sum(extents[:-1]), sum(extents))


def spell_out_parts(graph):
    """Each of the views that split and unbind give becomes a slice, or an element, of its own."""
    several = {_aten.split.Tensor, _aten.split_with_sizes.default, _aten.unbind.int}
    for node in list(graph.nodes):
        if node.target not in several or any(user.target is not operator.getitem for user in node.users):
            continue
        for user in list(node.users):
            part = _part(node, user.args[1])
            if part is not None:
                with graph.inserting_before(user):
                    view = graph.call_function(*part)
                view.meta = {"original_aten": node.target, **user.meta}
                user.replace_all_uses_with(view)
                graph.erase_node(user)
        if not node.users:
            graph.erase_node(node)


# ---- biases


def split_biases(graph):
    """Every convolution with a bias as one without, and an addition."""
    for node in list(graph.nodes):
        if node.target is not _aten.convolution.default or node.args[2] is None:
            continue
        bias, made = node.args[2], node.meta["val"]
        if bias.meta["val"].dtype != made.dtype or not _partition.has_type(made):
            continue
        node.args = (*node.args[:2], None, *node.args[3:])
        with graph.inserting_after(node):
            view = graph.call_function(_aten.view.default, (bias, [-1] + [1] * (made.dim() - 2)))
        view.meta["val"] = bias.meta["val"].view([-1] + [1] * (made.dim() - 2))
        with graph.inserting_after(view):
            added = graph.call_function(_aten.add.Tensor, (node, view))
        added.meta["val"] = made
        node.replace_all_uses_with(added, delete_user_cb=lambda user: user is not added)
        added.meta["epifuse_bias"] = bias


def split_bias_gradients(graph):
    """The gradient of a convolution's bias as a sum, which may join the kernel that makes what is summed."""
    for node in list(graph.nodes):
        if node.target is not _aten.convolution_backward.default or not node.args[10][2]:
            continue
        given, first = node.args[0], _partition.tensor_of(node.args[0])
        node.args = (*node.args[:10], [*node.args[10][:2], False])
        made = node.meta["val"]
        node.meta["val"] = (*made[:2], None)
        for user in [user for user in node.users if user.args[1] == 2]:
            with graph.inserting_before(user):
                total = graph.call_function(_aten.sum.dim_IntList, (given, [0, *range(2, first.dim())]))
            total.meta = {**user.meta, "original_aten": node.target}
            user.replace_all_uses_with(total)
            graph.erase_node(user)
    graph.eliminate_dead_code()


def take_apart(graph):
    """Makes nodes of their own of what may join a kernel: parts of tensors, biases and their gradients."""
    spell_out_parts(graph)
    split_biases(graph)
    split_bias_gradients(graph)


def name_of(node):
    """An operation's name for people."""
    return "bias" if "epifuse_bias" in node.meta else _partition.name_of(node)


def origin_of(node):
    """The name of the operation that AOTAutograd made the node of, or its own."""
    origin = node.meta.get("original_aten")
    return name_of(node) if origin is None else getattr(origin, "overloadpacket", origin).__name__


def join_biases(graph, groups):
    """Takes back the additions that joined no other operation; gives the groups that remain."""
    kept = []
    for group in groups:
        work = [node for node in group.nodes if "epifuse_bias" not in node.meta]
        if work:
            kept.append(group)
    inside = {node for group in kept for node in group.nodes}
    for node in list(graph.nodes):
        if "epifuse_bias" in node.meta and node not in inside:
            convolution = node.args[0]
            convolution.args = (*convolution.args[:2], node.meta["epifuse_bias"], *convolution.args[3:])
            node.replace_all_uses_with(convolution)
            graph.erase_node(node)
    graph.eliminate_dead_code()
    return kept


def may_be_measured(graph, inputs):
    """Whether calls of the graph may be repeated, and there is something to choose: convolutions on a GPU, of known
    extents; nothing is written, and no random numbers are drawn."""
    if not all(isinstance(one, torch.Tensor) and all(isinstance(n, int) for n in one.shape) for one in inputs):
        return False
    for node in graph.nodes:
        if node.op == "call_function" and (node.is_impure() or node.target is _aten.copy_.default):
            return False
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            return False
    return any(node.target is _aten.convolution.default and node.meta["val"].is_cuda for node in graph.nodes)
