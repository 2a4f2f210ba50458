"""The operator epifuse::tail of PyTorch's dispatcher, with its fake implementation: how a tail goes through
torch.compile, torch.export and every other tracer. Importing this module registers it; plain calls do not come here."""

import functools

import torch

from . import _shapes, _tail
from ._arrays import NAMES, dtype_name, dtype_names
from ._core import Launcher

_TORCH = {ours: getattr(torch, theirs) for ours, theirs in NAMES.items() if hasattr(torch, theirs)}
_OURS = {theirs: ours for ours, theirs in _TORCH.items()}
_INTEGRAL = {torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool}

# chain: the text. results: one "type:order" per result, with commas between them; either part may be empty, the order
# is 0.2.3.1 and the like. tail_in_order's operands are copied to lie as they did when the graph was traced, tail's are
# read as they lie; _lowering.py sees to it. tail_over writes the one result over the operand at `position`, of which
# `inputs` are the others: only _lowering.py makes it.
_LIBRARY = torch.library.Library("epifuse", "DEF")
_SIGNATURE = "(Tensor[] inputs, float[] scalars, str chain, str results) -> Tensor[]"
_SIGNATURE_OVER = "(Tensor(a!) over, Tensor[] inputs, float[] scalars, str chain, str results, int position) -> ()"
_TAGS = (torch.Tag.flexible_layout, torch.Tag.pt2_compliant_tag)


def spell_results(dtypes, orders):
    """The `results` argument for types by our names and orders of dimensions; None where the default is meant."""
    return ",".join(
        f"{dtype or ''}:{'.'.join(map(str, order)) if order is not None else ''}"
        for dtype, order in zip(dtypes, orders)
    )


def _parse_results(results):
    pairs = [part.partition(":") for part in results.split(",")]
    return (
        [dtype or None for dtype, _, _ in pairs],
        [[int(one) for one in order.split(".")] if order else None for _, _, order in pairs],
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


def _order_like(inputs, shape):
    """As the launcher chooses it: the first operand of that shape decides."""
    for tensor in inputs:
        if tuple(tensor.shape) == tuple(shape) and all(
            stride > 0 or extent <= 1 for stride, extent in zip(tensor.stride(), tensor.shape)
        ):
            if tensor.is_contiguous():
                break
            extents, strides = ([_shapes.hint(one) for one in many] for many in (tensor.shape, tensor.stride()))
            return sorted(range(len(shape)), key=lambda i: (extents[i] > 1, -strides[i]))
    return list(range(len(shape)))


def _usual(inputs):
    largest = max(inputs, key=lambda tensor: tensor.numel())
    return torch.float32 if largest.dtype in _INTEGRAL else largest.dtype


def _fake(inputs, scalars, chain, results):
    names, values, positions, elementwise = facts_of(chain)
    dtypes, orders = _parse_results(results)
    shapes = _shapes.result_shapes(
        values, positions, elementwise, {name: tuple(tensor.shape) for name, tensor in zip(names, inputs)}
    )
    made = []
    for shape, dtype, order, position in zip(shapes, dtypes, orders, positions):
        order = order or _order_like(inputs, shape)
        kind = _TORCH[dtype] if dtype else torch.bool if values[position]["gives_truth"] else _usual(inputs)
        dense = inputs[0].new_empty([shape[i] for i in order], dtype=kind)
        made.append(dense.permute(sorted(range(len(order)), key=order.__getitem__)))
    return made


def _launch(inputs, scalars, chain, results):
    result = launcher_for(chain, results).run(*inputs, *scalars)
    return list(result) if isinstance(result, tuple) else [result]


def _launch_over(over, inputs, scalars, chain, results, position):
    operands = [*inputs[:position], over, *inputs[position:], *scalars]
    launcher_for(chain, results).call(tuple(operands), {}, over, None)


def _autograd(operator):
    def autograd(inputs, scalars, chain, results):
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
            raise ValueError(
                "an operand of epifuse::tail requires grad, and EpiFuse has no backward pass: call it under "
                "torch.no_grad() or detach the tensor"
            )
        with torch._C._AutoDispatchBelowAutograd():
            return getattr(torch.ops.epifuse, operator)(inputs, scalars, chain, results)

    return autograd


# For code that Inductor generates: the dispatcher would take ten times as long as the launch.
torch.ops.epifuse.launch = _launch
torch.ops.epifuse.launch_over = _launch_over

for _operator in ("tail", "tail_in_order"):
    _LIBRARY.define(_operator + _SIGNATURE, tags=_TAGS)
    _LIBRARY.impl(_operator, _launch, "CPU")
    _LIBRARY.impl(_operator, _launch, "CUDA")
    _LIBRARY.impl(_operator, _autograd(_operator), "Autograd")
    torch.library.register_fake(f"epifuse::{_operator}", _fake, lib=_LIBRARY)

_LIBRARY.define("tail_over" + _SIGNATURE_OVER, tags=_TAGS)
_LIBRARY.impl("tail_over", _launch_over, "CPU")
_LIBRARY.impl("tail_over", _launch_over, "CUDA")
torch.library.register_fake("epifuse::tail_over", lambda *arguments: None, lib=_LIBRARY)


def _targets(out, count):
    """The tensors of out=, one per result."""
    targets = [out] if isinstance(out, torch.Tensor) else list(out)
    if len(targets) != count:
        raise ValueError(f"out has {len(targets)} arrays, but the chain has {count} results")
    return targets


def _write(targets, made):
    """out= while a tracer runs: results of the targets' types, in these tensors."""
    for target, result in zip(targets, made):
        if target.shape != result.shape:
            raise ValueError(f"out has the shape {tuple(target.shape)}, its result {tuple(result.shape)}")
    return [target.copy_(result) for target, result in zip(targets, made)]


def _call(chain, names, scalar_names, fixed, arrays, named, out, dtypes):
    """`fixed`: the types of the results that the tail has, `dtypes`: those of this call."""
    count = len(fixed)
    values = list(arrays) + [named[name] for name in (*names, *scalar_names)[len(arrays) :]]
    scalars = [float(value) for value in values[len(names) :]]
    targets = None if out is None else _targets(out, count)
    if targets is not None:
        dtypes = [dtype_name(target.dtype) for target in targets]  # so that a kernel rounds and saturates
    types = [one or other for one, other in zip(dtypes or fixed, fixed)]
    made = torch.ops.epifuse.tail(values[: len(names)], scalars, chain, spell_results(types, [None] * count))
    if targets is not None:
        made = _write(targets, made)
    return made[0] if count == 1 else tuple(made)


def traced(tail, arrays, named, out, dtype):
    """A call of a Tail while torch.compile traces: the operator instead of the launch."""
    dtypes = None if dtype is None else dtype_names(dtype, len(tail.results))
    return _call(tail.text, tail.inputs, tail.scalars, tail.dtypes, arrays, named, out, dtypes)


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
    """A call of a fused function while torch.compile traces: the function itself, whose operations the backend fuses,
    with the types that the kernel's results have."""
    usual, most = torch.float32, -1
    for one in (*args, *kwargs.values()):
        if isinstance(one, torch.Tensor) and one.numel() > most:
            usual, most = torch.float32 if one.dtype in _INTEGRAL else one.dtype, one.numel()
    results = function(*args, **kwargs)
    several = isinstance(results, (tuple, list))
    made = list(results) if several else [results]
    types = [None] * len(made) if dtype is None else dtype_names(dtype, len(made))
    if out is not None:
        targets = _targets(out, len(made))
        types = [dtype_name(target.dtype) for target in targets]
    made = [
        _stored(one, _TORCH[name] if name else one.dtype if one.dtype is torch.bool else usual)
        for one, name in zip(made, types)
    ]
    if out is not None:
        made = _write(targets, made)
    return tuple(made) if several else made[0]


def dispatch(launcher, values, out, dtypes):
    """A call with a subclass of torch.Tensor (a fake tensor, most likely), by position: the dispatcher knows what it
    is."""
    return _call(launcher.text, launcher.inputs, launcher.scalars, launcher.dtypes, values, {}, out, dtypes)


_tail.compiling = torch.compiler.is_compiling
