"""The pass over Inductor's graph that lets a tail write its result over an operand that nobody needs any more: the
graph needs one tensor less, and the L2 cache holds twice as large ones. Beyond it an H100 writes as fast elsewhere (a
kernel of 1 GB: 2.97 TB/s in place, 2.98 apart). Used by _torch_backend.py."""

import collections
import dataclasses
import functools
import math
import operator
import pathlib
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx.experimental.symbolic_shapes import statically_known_true

from . import _core, _partition, _shapes
from ._torch_ops import facts_of

_aten = torch.ops.aten
_TAIL, _LAUNCH = torch.ops.epifuse.tail.default, torch.ops.epifuse.launch.default
_OVER = torch.ops.epifuse.launch_over.default
# These have new memory of their own, however Inductor makes them. Those that do nothing for some operands (a copy, a
# cast, an expansion) it may leave out: what they give is another tensor's memory.
_PRODUCTS = {_aten.mm.default, _aten.addmm.default, _aten.bmm.default, _aten.baddbmm.default}
_POOLS = ("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d")
_PRODUCERS = _PRODUCTS | {_aten.convolution.default} | {getattr(_aten, name).default for name in _POOLS}


@functools.lru_cache(1)
def _sources():
    """What the code of a cached graph depends on: the operators, this pass, and the library."""
    folder = pathlib.Path(__file__).parent
    return get_hash_for_files((*map(str, sorted(folder.glob("*.py"))), _core.__file__), extra=_core.version)


@dataclasses.dataclass(frozen=True)
class InPlace(CustomGraphPass):
    """The pass, for Inductor's configuration. `settings`: all that the graph was cut with, as text. `before`: the
    application's own pass, which runs first."""

    settings: str
    before: Any = None

    def __call__(self, graph):
        for one in self.before if isinstance(self.before, (list, tuple)) else [self.before]:
            if one is not None:
                one(graph)
        for node in graph.nodes:
            if node.target is _TAIL:  # of the model's own: gradients are another graph's matter
                node.target = _LAUNCH
        # PyTorch 2.7's wrapper in C++ calls no operators without a result.
        if config.inplace_buffers and not config.cpp_wrapper:
            _write_over(graph)

    def uuid(self):
        """Graphs that another version or other settings made are not taken from Inductor's cache."""
        before = self.before if isinstance(self.before, (list, tuple)) else [self.before]
        known = [None if one is None else getattr(one, "uuid", lambda: None)() for one in before]
        if any(one is not None and uuid is None for one, uuid in zip(before, known)):
            return None  # as Inductor has it: what cannot be named is not cached
        return "epifuse", _sources(), self.settings, tuple(known)


def _write_over(graph):
    turns = _may_turn_images(graph)
    for node in list(graph.nodes):
        if node.target is not _LAUNCH or len(node.meta["val"]) != 1:
            continue
        taken = _dead(node, turns)
        if taken is None:
            continue
        inputs, scalars, chain, results, *orders = node.args
        over, inputs = inputs[taken], [one for i, one in enumerate(inputs) if i != taken]
        orders = orders[0].split(",") if orders and orders[0] else []
        orders = ",".join(order for i, order in enumerate(orders) if i != taken)
        with graph.inserting_before(node):
            call = graph.call_function(_OVER, (over, inputs, scalars, chain, results, taken, orders))
        call.meta["val"] = None
        for user in list(node.users):  # operator.getitem
            user.replace_all_uses_with(over)
            graph.erase_node(user)
        graph.erase_node(node)


def _dead(node, turns):
    """The position of an operand that the one result may be written over, or None."""
    inputs, _, chain, results, *orders = node.args
    (result,) = node.meta["val"]
    orders = orders[0].split(",") if orders and orders[0] else [""] * len(inputs)
    order = results.partition(":")[2]
    users = [user for item in node.users for user in item.users]
    if any(user.target is _aten.as_strided.default for user in users):
        return None  # it counts on the strides, and Inductor may still change those of the operand
    for i, operand in enumerate(inputs):
        if (
            inputs.count(operand) == 1
            and _is_last_use(operand, node)
            and _owns_its_memory(operand)
            and _lies_as(_partition.tensor_of(operand), result)
            and not ((order or orders[i]) and turns and _may_be_turned(operand))
            and _is_whole(chain, inputs, result)
        ):
            return i
    return None


def _is_last_use(operand, node):
    """Whether nothing but the tail uses the operand. What was written over it before stands before the tail. Other
    users would not do, even before it: Inductor may put off what they compute."""
    return all(user is node or (user.target is _OVER and user.args[0] is operand) for user in operand.users)


def _owns_its_memory(node):
    """Whether the node's result is memory that the graph allocates for it alone: no input, no constant, no part or
    other name of another tensor."""
    if node.target is operator.getitem:
        node, index = node.args
        return index == 0 and (node.target in _PRODUCERS or node.target is _LAUNCH)
    return node.target in _PRODUCERS


def _lies_as(a, b):
    """Whether two fake tensors have one type, device, shape and order, but for the strides of single elements."""
    if a is None or (a.dtype, a.device, a.dim()) != (b.dtype, b.device, b.dim()):
        return False
    return all(
        statically_known_true(extent == other)
        and (statically_known_true(extent == 1) or statically_known_true(step == wanted))
        for extent, other, step, wanted in zip(a.shape, b.shape, a.stride(), b.stride())
    )


def _is_whole(chain, inputs, result):
    """Whether the result has all the elements that the chain computes with: then each of an operand that lies as it
    does is read by those who write it there. `sum(x * v, 1)` over `v` would write what other rows still read."""
    names, values, _, elementwise = facts_of(chain)
    if elementwise:
        return True
    if _shapes.moves(values):
        return False  # another view may read what is written
    shapes = {name: tuple(_partition.tensor_of(one).shape) for name, one in zip(names, inputs)}
    return all(_has_no_more(shape, tuple(result.shape)) for shape in _shapes.value_shapes(values, shapes))


def _has_no_more(shape, most):
    """Whether a shape has no more elements than another; False where symbols leave it open."""
    if statically_known_true(math.prod(shape) <= math.prod(most)):
        return True
    return not collections.Counter(map(str, shape)) - collections.Counter([*map(str, most), *["1"] * len(shape)])


# ---- layouts: Inductor may still turn images to channels-last behind this pass. A tail in the order of its operand
# goes with it; one that writes or reads in a given order does not


def _may_turn_images(graph):
    return config.layout_optimization and any(_is_convolution_of_images(node) for node in graph.nodes)


def _is_convolution_of_images(node):
    return node.target is _aten.convolution.default and _partition.tensor_of(node).dim() == 4


def _may_be_turned(node):
    """Whether the node's result may come to lie otherwise than its fake tensor: of images only products' do not, and
    tails' in an order that is given."""
    if node.target is operator.getitem:
        made = node.args[0]
        return made.target is not _LAUNCH or not made.args[3].split(",")[node.args[1]].partition(":")[2]
    return node.target not in _PRODUCTS and _partition.tensor_of(node).dim() == 4
