"""The operator epifuse::tail of PyTorch's dispatcher, with its fake implementation: how a tail goes through
torch.compile, torch.export and every other tracer. Importing this module registers it; plain calls do not come here."""

import functools
import math

import torch

from . import _shapes, _tail
from ._arrays import NAMES, dtype_name, dtype_names
from ._core import Launcher

_TORCH = {ours: getattr(torch, theirs) for ours, theirs in NAMES.items() if hasattr(torch, theirs)}
_OURS = {theirs: ours for ours, theirs in _TORCH.items()}
_INTEGRAL = {one for one in _OURS if not one.is_floating_point}

# chain: the text. results: one "type:order" per result, with commas between them; either part may be empty, the order
# is 0.2.3.1 and the like. Operands are read as they lie.
# What graphs of the backend hold: launch, which has no autograd kernel, as those graphs need no gradients: it would
# take as long as the launch. orders: how each operand is to lie when it is read, with commas between them; what lies
# otherwise is copied first, nothing means as it lies. launch_over writes the one result over the operand at `position`,
# of which `inputs` and `orders` are the others.
_LIBRARY = torch.library.Library("epifuse", "DEF")
_SIGNATURE = "(Tensor[] inputs, float[] scalars, str chain, str results) -> Tensor[]"
_SIGNATURE_LAUNCH = '(Tensor[] inputs, float[] scalars, str chain, str results, str orders="") -> Tensor[]'
_SIGNATURE_OVER = (
    "(Tensor(a!) over, Tensor[] inputs, float[] scalars, str chain, str results, int position, "
    'str orders="") -> ()'
)
_TAGS = (torch.Tag.flexible_layout, torch.Tag.pt2_compliant_tag)


_CHANNELS_LAST = [0, 2, 3, 1]


def spell_order(order):
    return ".".join(map(str, order)) if order is not None else ""


def _parse_order(order):
    return [int(one) for one in order.split(".")] if order else None


def spell_results(dtypes, orders):
    """The `results` argument for types by our names and orders of dimensions; None where the default is meant."""
    return ",".join(f"{dtype or ''}:{spell_order(order)}" for dtype, order in zip(dtypes, orders))


def _parse_results(results):
    pairs = [part.partition(":") for part in results.split(",")]
    return (
        [dtype or None for dtype, _, _ in pairs],
        [_parse_order(order) for _, _, order in pairs],
    )


@functools.lru_cache(4096)
def launcher_for(chain, results):
    dtypes, orders = _parse_results(results)
    return Launcher(chain, [], dtypes, orders)


@functools.lru_cache(4096)
def facts_of(chain):
    """What shapes follow from: names of operands, values, which of them are results, whether all are elementwise."""
    launcher = Launcher(chain)
    return launcher.inputs, launcher.values(), launcher.result_values, launcher.is_elementwise


@functools.lru_cache(4096)
def _scalars_of(chain):
    return tuple(Launcher(chain).scalars)


@torch.compiler.assume_constant_result
def scalars_of(chain):
    """The run-time scalars in the order of the text's declarations, which need not be that of a Tail's."""
    return _scalars_of(chain)


def _order_of(tensor):
    """The dimensions as the tensor has them in memory, outermost first; None for one that repeats elements."""
    if any(stride <= 0 and extent > 1 for stride, extent in zip(tensor.stride(), tensor.shape)):
        return None
    if tensor.is_contiguous():
        return list(range(tensor.dim()))
    extents, strides = ([_shapes.hint(one) for one in many] for many in (tensor.shape, tensor.stride()))
    return sorted(range(tensor.dim()), key=lambda i: (extents[i] > 1, -strides[i]))


def _order_of_result(chain, inputs, shape):
    """As the launcher chooses it: the first operand of that shape decides, else a convolution's images or filters."""
    for tensor in inputs:
        if tuple(tensor.shape) == tuple(shape) and (order := _order_of(tensor)) is not None:
            return order
    names, values, _, elementwise = facts_of(chain)
    operands = dict(zip(names, inputs))
    for value in [] if elementwise or len(shape) != 4 else values:
        for dim, position in enumerate(value["arguments"] if value["op"] == "conv2d" else ()):
            tensor = operands.get(values[position]["name"]) if values[position]["op"] == "input" else None
            if tensor is not None and tensor.shape[0] == shape[dim] and _order_of(tensor) == _CHANNELS_LAST:
                return list(_CHANNELS_LAST)
    return list(range(len(shape)))


def _counted(table, dtype):
    """Of a type its other name."""
    if dtype not in table:
        raise TypeError(
            f"an array of {dtype} goes through plain calls of a tail alone, not through torch.compile or torch.export: "
            "PyTorch's tracers count its bytes, a chain its elements"
        )
    return table[dtype]


def _fake(inputs, scalars, chain, results):
    names, values, positions, elementwise = facts_of(chain)
    _, orders = _parse_results(results)
    shapes = _shapes.result_shapes(
        values, positions, elementwise, {name: tuple(tensor.shape) for name, tensor in zip(names, inputs)}
    )
    dtypes = launcher_for(chain, results).result_types(
        [_counted(_OURS, tensor.dtype) for tensor in inputs], [tensor.dim() for tensor in inputs]
    )
    return [
        _lying(inputs[0], shape, order or _order_of_result(chain, inputs, shape), _counted(_TORCH, dtype))
        for shape, dtype, order in zip(shapes, dtypes, orders)
    ]


def _run(inputs, scalars, chain, results):
    result = launcher_for(chain, results).run(*inputs, *scalars)
    return list(result) if isinstance(result, tuple) else [result]


# ---- rows in order


def _lies_in(extents, strides, order):
    """Whether neighbours along the last dimension of `order` are neighbours in memory, and so on outwards. Only for
    real tensors: extents and strides are numbers."""
    steps = [strides[axis] for axis in order if extents[axis] > 1]
    return all(one >= other for one, other in zip(steps, steps[1:]))


@functools.lru_cache(4096)
def _copies(orders, shapes, strides):
    """The operands that lie otherwise than `orders` asks, and how each is to lie."""
    wanted = [(i, _parse_order(order)) for i, order in enumerate(orders.split(","))]
    return [(i, order) for i, order in wanted if order and not _lies_in(shapes[i], strides[i], order)]


def _in_order(inputs, orders):
    """The operands with those copied that lie otherwise than asked, and the positions of the copies. One of our kernels
    makes a copy: with Inductor's, 550 µs on an H100, problem 17 of KernelBench took 1.58 ms in f16, with ours 1.39."""
    if not orders:
        return inputs, ()
    layouts = tuple(tuple(one.shape) for one in inputs), tuple(one.stride() for one in inputs)
    copies = _copies(orders, *layouts)
    if not copies:
        return inputs, ()
    inputs = list(inputs)
    for i, order in copies:
        inputs[i] = launcher_for("x0", spell_results([_OURS[inputs[i].dtype]], [order])).run(inputs[i])
    return inputs, tuple(i for i, _ in copies)


@functools.lru_cache(4096)
def _has_whole_result(chain, shapes):
    """Whether the one result has all the elements that the chain computes with, for numbers as extents: then each
    element of an operand that lies as the result does is read by those who write it there. `sum(x * v, 1)` over `v`
    would write what other rows still read."""
    names, values, positions, _ = facts_of(chain)
    if _shapes.moves(values):
        return False  # another view may read what is written
    made = _shapes.value_shapes(values, dict(zip(names, shapes)))
    return len(positions) == 1 and all(math.prod(shape) <= math.prod(made[positions[0]]) for shape in made)


def _launch(inputs, scalars, chain, results, orders=""):
    inputs, copies = _in_order(inputs, orders)
    if copies and _has_whole_result(chain, tuple(tuple(one.shape) for one in inputs)):
        ((dtype, order),) = zip(*_parse_results(results))
        for i in copies:  # the copy is nobody else's: the result may take its memory
            if _takes(inputs[i], dtype, order, inputs, chain):
                launcher_for(chain, results).launch((*inputs, *scalars), inputs[i])
                return [inputs[i]]
    return _run(inputs, scalars, chain, results)


def _takes(copy, dtype, order, inputs, chain):
    """Whether the one result of the chain would have the copy's type, shape and strides."""
    names, values, (result,), elementwise = facts_of(chain)
    (shape,) = _shapes.result_shapes(
        values, [result], elementwise, {name: tuple(tensor.shape) for name, tensor in zip(names, inputs)}
    )
    if tuple(copy.shape) != tuple(shape) or _OURS[copy.dtype] != dtype:
        return False
    return _lies_in(copy.shape, copy.stride(), order or _order_of_result(chain, inputs, shape))


def _launch_over(over, inputs, scalars, chain, results, position, orders=""):
    inputs, _ = _in_order(inputs, orders)
    operands = [*inputs[:position], over, *inputs[position:], *scalars]
    launcher_for(chain, results).launch(tuple(operands), over)


def _fake_in_order(inputs, scalars, chain, results, orders=""):
    """As of operands that lie in order."""
    wanted = [_parse_order(order) for order in orders.split(",")] if orders else [None] * len(inputs)
    return _fake(
        [one if order is None else _lying(one, one.shape, order) for one, order in zip(inputs, wanted)],
        scalars,
        chain,
        results,
    )


def _lying(like, shape, order, dtype=None):
    """A new dense tensor whose dimensions lie in an order, outermost first."""
    dense = like.new_empty([shape[i] for i in order], dtype=dtype or like.dtype)
    return dense.permute(sorted(range(len(order)), key=order.__getitem__))


def _autograd(inputs, scalars, chain, results):
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        from ._autograd import record

        return record(inputs, scalars, chain, results)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.epifuse.tail(inputs, scalars, chain, results)


def define(operator, signature, real, shape):
    """An operator of torch.ops.epifuse: what it does on devices of both kinds, and what it gives for tensors without
    elements."""
    _LIBRARY.define(operator + signature, tags=_TAGS)
    _LIBRARY.impl(operator, real, "CPU")
    _LIBRARY.impl(operator, real, "CUDA")
    torch.library.register_fake(f"epifuse::{operator}", shape, lib=_LIBRARY)


define("tail", _SIGNATURE, _run, _fake)
define("launch", _SIGNATURE_LAUNCH, _launch, _fake_in_order)
define("launch_over", _SIGNATURE_OVER, _launch_over, lambda *arguments: None)
_LIBRARY.impl("tail", _autograd, "Autograd")


def targets_of(out, count):
    """The tensors of out=, one per result."""
    targets = [out] if isinstance(out, torch.Tensor) else list(out)
    if len(targets) != count:
        raise ValueError(f"out has {len(targets)} arrays, but the chain has {count} results")
    return targets


def copy_into(targets, made):
    """out= where no kernel writes it itself, as while a tracer runs: results of the targets' types, in these tensors."""
    for target, result in zip(targets, made):
        if target.shape != result.shape:
            raise ValueError(f"out has the shape {tuple(target.shape)}, its result {tuple(result.shape)}")
    return [target.copy_(result) for target, result in zip(targets, made)]


def _call(chain, names, scalar_names, fixed, arrays, named, out, dtypes):
    """`fixed`: the types of the results that the tail has, `dtypes`: those of this call."""
    count = len(fixed)
    values = list(arrays) + [named[name] for name in (*names, *scalar_names)[len(arrays) :]]
    given = dict(zip(scalar_names, values[len(names) :]))
    scalars = [float(given[name]) for name in scalars_of(chain)]
    targets = None if out is None else targets_of(out, count)
    if targets is not None:
        dtypes = [dtype_name(target.dtype) for target in targets]  # so that a kernel rounds and saturates
    types = [one or other for one, other in zip(dtypes or fixed, fixed)]
    made = torch.ops.epifuse.tail(values[: len(names)], scalars, chain, spell_results(types, [None] * count))
    if targets is not None:
        made = copy_into(targets, made)
    return made[0] if count == 1 else tuple(made)


def traced(tail, arrays, named, out, dtype):
    """A call of a Tail while torch.compile traces: the operator instead of the launch."""
    if tail._unordered is not None:
        arrays, named = (), tail._by_name(arrays, named)
    return _call(tail._chain, tail.inputs, tail.scalars, tail.dtypes, arrays, named, out, tail._types(dtype))


def _stored(value, dtype):
    """A value as a kernel stores it: integers are rounded half to even and saturate, NaN becomes 0 in them; fp8
    saturates."""
    if value.dtype == dtype or dtype is torch.bool:
        return value.to(dtype)
    if dtype in _LARGEST:
        return value.clamp(-_LARGEST[dtype], _LARGEST[dtype]).to(dtype)
    if dtype not in _INTEGRAL or value.dtype is torch.bool:
        return value.to(dtype)
    least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    if not value.dtype.is_floating_point:
        here = torch.iinfo(value.dtype)
        return value.clamp(max(least, here.min), min(most, here.max)).to(dtype)
    value = value.to(torch.float64)
    whole = torch.where(value.isnan(), 0.0, value.round())
    beyond = whole >= float(most)  # which i64's largest is not
    return torch.where(beyond, most, torch.where(beyond, 0.0, whole.clamp(min=float(least))).to(dtype))


_LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}


def plain(function, args, kwargs, dtype, out=None):
    """A call of a fused function while torch.compile traces: the function itself, whose operations the backend fuses."""
    results = function(*args, **kwargs)
    several = isinstance(results, (tuple, list))
    made = list(results) if several else [results]
    types = [None] * len(made) if dtype is None else dtype_names(dtype, len(made))
    if out is not None:
        targets = targets_of(out, len(made))
        types = [dtype_name(target.dtype) for target in targets]
    made = [_stored(one, _TORCH[name] if name else one.dtype) for one, name in zip(made, types)]
    if out is not None:
        made = copy_into(targets, made)
    return tuple(made) if several else made[0]


def dispatch(launcher, values, out, dtypes):
    """A call with a subclass of torch.Tensor (a fake tensor, most likely), by position: the dispatcher knows what it
    is."""
    return _call(launcher.text, launcher.inputs, launcher.scalars, launcher.dtypes, values, {}, out, dtypes)


_tail.compiling = torch.compiler.is_compiling
