"""Shapes of a chain's results for operands whose extents may be symbols (torch.SymInt): what a fake tensor needs. Real
launches ask the library."""

import math

from . import _views


def hint(extent):
    """An example of a symbol's value: what a plan is tried with, and what says which of two strides is longer."""
    if isinstance(extent, int):
        return extent
    known = extent.node.hint
    return 64 if known is None else int(known)


def examples_apart(extents):
    """Values of the symbols in these extents that differ from each other, or None where the hints do already. What only
    holds where two extents are equal by chance shows with them. They are multiples of the hints: what divides stays."""
    symbols = [one for one in extents if not isinstance(one, int) and one.node.expr.is_Symbol]
    known = {one.node.expr: int(one.node.hint) for one in symbols if one.node.hint is not None}
    if len(set(known.values())) == len(known):
        return None
    apart = {}
    for symbol in sorted(known, key=str):
        value = known[symbol]
        while value in apart.values():
            value += known[symbol]
        apart[symbol] = value
    return apart


def example(extent, values):
    """The value of an extent or a stride where its symbols have these; its hint where it has others."""
    if isinstance(extent, int):
        return extent
    value = extent.node.expr.subs(values)
    return hint(extent) if value.free_symbols else int(value)


def broadcast(shapes):
    """NumPy's rule. Extents are compared only where both are not plainly 1, so that symbols stay free."""
    result = []
    for shape in shapes:
        result = [1] * (len(shape) - len(result)) + list(result)
        for back in range(1, len(shape) + 1):
            mine, theirs = result[-back], shape[-back]
            if isinstance(theirs, int) and theirs == 1:
                continue
            if isinstance(mine, int) and mine == 1:
                result[-back] = theirs
            elif mine != theirs:
                raise ValueError(f"operands of the shapes {[tuple(one) for one in shapes]} do not broadcast")
    return tuple(result)


def _reduced_dimensions(value, rank):
    """(0, 2, ...): the first, and all behind the second, be there some or none."""
    axes = list(value["axes"])
    if not axes or not rank:
        return set(range(rank))
    if value["axes_rest"]:
        first = axes.pop()
        axes += range(first if first >= 0 else first + rank, rank)
    return {axis % rank for axis in axes}


def _reduced(value, shape):
    axes = _reduced_dimensions(value, len(shape))
    if value["keepdim"]:
        return tuple(1 if i in axes else extent for i, extent in enumerate(shape))
    return tuple(extent for i, extent in enumerate(shape) if i not in axes)


def _unflattened(value, shape):
    axis = value["axes"][0] % len(shape)
    first, second = value["sizes"]
    extent = shape[axis]
    if first == -1:
        first = extent // second
    if second == -1:
        second = extent // first
    return shape[:axis] + (first, second) + shape[axis + 1 :]


def _flattened(value, shape):
    first, last = (axis % len(shape) for axis in value["sizes"])
    return shape[:first] + (math.prod(shape[first : last + 1]),) + shape[last + 1 :]


def _unsqueezed(value, other):
    """The shape of a reduction of `other` that keeps the dimensions."""
    return _reduced({**value, "keepdim": True}, other)


def _along(value, vector, other):
    axis = value["axes"][0] % len(other)
    return tuple(vector[0] if vector and i == axis else 1 for i in range(len(other)))


def _joined(value, first, second):
    axis = value["axes"][0] % len(first)
    return (*first[:axis], first[axis] + second[axis], *first[axis + 1 :])


def _multiplied(left, right):
    return (*broadcast([left[:-2], right[:-2]]), left[-2], right[-1])


def _convolved(value, images, filters):
    """`sizes` are those of stride, padding and dilation, each for the height and the width."""
    stride, padding, dilation = (value["sizes"][i : i + 2] for i in (0, 2, 4))
    pixels = [
        (images[2 + d] + 2 * padding[d] - dilation[d] * (filters[2 + d] - 1) - 1) // stride[d] + 1 for d in range(2)
    ]
    return (images[0], filters[0], *pixels)


def _indexed(value, table, index):
    if value["op"] == "gather":
        return index
    axis = value["axes"][0] % len(table)
    return (*table[:axis], *index, *table[axis + 1 :])


INDEXINGS = {"take", "index_select", "gather"}
REDUCTIONS = {"sum", "mean", "prod", "amax", "amin", "var", "any", "all"}


def reduces(values):
    """Whether a chain combines elements: then it matters along which dimension they are neighbours."""
    return any(value["op"] in REDUCTIONS for value in values)


def convolves(values):
    return any(value["op"] == "conv2d" for value in values)


def moves(values):
    """Whether a chain reads an operand at other places than it writes: then no result may lie over one."""
    return any(value["op"] in {"view", "cat", "matmul", "conv2d", "index_copy", *INDEXINGS} for value in values)


def result_shapes(values, results, elementwise, operands):
    """`values` and `results` as Launcher has them; `operands`: shapes by name."""
    if elementwise:
        return [broadcast(list(operands.values()))] * len(results)
    shapes = value_shapes(values, operands)
    return [shapes[position] for position in results]


def value_shapes(values, operands):
    """Of every value of a chain."""
    shapes = []
    for value in values:
        arguments = [shapes[position] for position in value["arguments"]]
        op = value["op"]
        if op == "input":
            shapes.append(tuple(operands[value["name"]]))
        elif op in ("expand_as", "reshape_as", "repeat_as") or (op == "sum" and len(arguments) > 1):
            shapes.append(arguments[1])  # with another value, sum is sum_to
        elif op == "unsqueeze_as":
            shapes.append(_unsqueezed(value, arguments[1]))
        elif op == "count":
            shapes.append(())
        elif op in REDUCTIONS:
            shapes.append(_reduced(value, arguments[0]))
        elif op == "unflatten":
            shapes.append(_unflattened(value, arguments[0]))
        elif op == "flatten":
            shapes.append(_flattened(value, arguments[0]))
        elif op == "view":
            shapes.append(_views.shape_of(value["view"], arguments[0]))
        elif op == "matmul":
            shapes.append(_multiplied(*arguments))
        elif op == "conv2d":
            shapes.append(_convolved(value, *arguments))
        elif op == "cat":
            shapes.append(_joined(value, *arguments))
        elif op in ("index_copy", "block_scaled"):
            shapes.append(arguments[0])
        elif op in INDEXINGS:
            shapes.append(_indexed(value, *arguments))
        elif op == "along":
            shapes.append(_along(value, *arguments))
        else:
            shapes.append(broadcast(arguments))
    return shapes
