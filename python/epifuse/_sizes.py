"""Sizes under dynamic shapes. A batch norm in training asks the value that it reads for the number of its elements; where
that value is one of a kernel, it would have to be a result of it. Here sizes come from what is in memory anyway: inputs of
the graph, and what no kernel computes. Used by _torch_backend.py before a graph is cut."""

import functools
import operator

import torch

from ._aten import Unfit
from ._group import check, tensor_of

_SIZE, _NUMEL = torch.ops.aten.sym_size.int, torch.ops.aten.sym_numel.default


def _is_in_memory(node):
    if node.op != "call_function":
        return node.op == "placeholder"
    try:
        check(node)
    except Unfit:
        return tensor_of(node) is not None and node.target not in (_SIZE, _NUMEL)
    return False


def _key(extent):
    """What equal extents share: a number, or the text of a symbol's expression."""
    return extent if isinstance(extent, int) else str(extent.node.expr)


def _asked(node):
    """The extents whose product a node gives, of a value that may be a kernel's; or nothing."""
    if node.op != "call_function" or node.target not in (_SIZE, _NUMEL) or _is_in_memory(node.args[0]):
        return None
    tensor = tensor_of(node.args[0])
    if tensor is None:
        return None
    return list(tensor.shape) if node.target is _NUMEL else [tensor.shape[node.args[1]]]


def _size_node(graph, tensor, axis):
    node = graph.call_function(_SIZE, (tensor, axis))
    node.meta["val"] = tensor_of(tensor).shape[axis]
    return node


def _product(graph, one, other):
    node = graph.call_function(operator.mul, (one, other))
    values = [part.meta["val"] if isinstance(part, torch.fx.Node) else part for part in node.args]
    node.meta["val"] = operator.mul(*values)
    return node


def ask_what_is_in_memory(graph):
    """Sizes of values that a kernel may compute become sizes of tensors that surely are in memory, where one has them."""
    known = {}  # how a node of an extent is made
    for node in list(graph.nodes):
        extents = _asked(node)
        if extents is not None and all(isinstance(one, int) or _key(one) in known for one in extents):
            with graph.inserting_before(node):
                parts = [one if isinstance(one, int) else known[_key(one)]() for one in extents]
                whole = functools.reduce(functools.partial(_product, graph), parts)
            node.replace_all_uses_with(whole)
            graph.erase_node(node)
        elif isinstance(node.meta.get("val"), torch.SymInt) and node.op == "placeholder":
            known[_key(node.meta["val"])] = lambda node=node: node
        elif tensor_of(node) is not None and _is_in_memory(node):
            for axis, extent in enumerate(tensor_of(node).shape):
                if not isinstance(extent, int):
                    known.setdefault(_key(extent), functools.partial(_size_node, graph, node, axis))
