"""Calls with out= of tensors that require grad: the kernel writes where autograd knows of it, or nothing is written.
Used by _autograd.py."""

import dataclasses

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ._autograd import (
    Passes,
    _checked,
    _gradients,
    _in_order,
    _keep,
    _meta,
    _spec,
    _spelled,
    _types,
    _zeros,
    check_type,
    record,
)
from ._torch_ops import _fake, copy_into, launcher_for, spell_results


class _Written(torch.autograd.Function):
    """A call with out=: operators of torch.library record no writes. `tensors`: those that are written, then the
    operands that are not. PyTorch takes the gradient of the first for that of a view that is written."""

    @staticmethod
    def forward(ctx, call, *tensors):
        inputs = call.operands(tensors)
        output = call.write(inputs)
        _keep(ctx, call.passes, call.chain, inputs, call.scalars, output)
        ctx.mark_dirty(*call.targets)
        ctx.order = call.order
        return tuple(call.targets)

    @staticmethod
    def backward(ctx, *given):
        made = _gradients(ctx, given)
        found = [made.get(place) for place in ctx.order]
        for i in range(len(given)):
            if found[i] is None and ctx.needs_input_grad[1 + i]:  # what was there is gone
                found[i] = _zeros(*ctx.gradients[i])
        return None, *found


@dataclasses.dataclass(frozen=True)
class _Call:
    """A call with out=. `order`: for each tensor that _Written takes, which operand it is, or None."""

    passes: Passes
    chain: str
    results: str
    scalars: list
    targets: list
    order: list

    def operands(self, tensors):
        """In the order of the chain."""
        of = {place: one for place, one in zip(self.order, tensors) if place is not None}
        return [of[place] for place in range(len(of))]

    def write(self, inputs):
        """The results of the forward chain: the targets, and new tensors for what is saved."""
        scalars = _in_order(self.scalars, self.chain, self.passes.forward)
        spelled = _spelled(self.passes, self.results, tuple(map(_spec, inputs)))
        like = _fake([_meta(one) for one in inputs], [], self.passes.forward, spelled)
        saved = [torch.empty_like(one, device=inputs[0].device) for one in like[len(self.targets) :]]
        launcher = launcher_for(self.passes.forward, spelled)
        launcher.launch((*inputs, *scalars), (*self.targets, *saved))
        return [*self.targets, *saved]


class _Allowed(Exception):
    """PyTorch lets a tensor be written."""


class _StopsAtTheKernel(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise _Allowed


def _refuse_to_write(target):
    """Raises, before anything is written, what PyTorch says of a write that autograd cannot record: of a view of a leaf
    that requires grad, of a piece of chunk. It looks at that before the kernel of an operation runs."""
    check_type("out", target)
    if target.requires_grad and target.is_leaf and target._base is None:
        raise ValueError("out is a leaf that requires grad, which autograd lets nobody write: leave out= away")
    if target.is_inference():
        raise ValueError("out was made under torch.inference_mode(): autograd cannot record its write; pass out.clone()")
    source = torch.zeros((), device="meta", requires_grad=True)
    try:
        with _StopsAtTheKernel():
            target.copy_(source)
    except _Allowed:
        pass


def write(inputs, scalars, chain, targets):
    """The results of a chain in given tensors."""
    for target in targets:
        _refuse_to_write(target)
    memory = {target.untyped_storage().data_ptr() for target in targets}
    overwritten = [i for i, one in enumerate(inputs) if one.untyped_storage().data_ptr() in memory]
    results = spell_results(_types(targets), [None] * len(targets))
    if len(targets) > 1 and any(target._base is not None for target in targets):
        # A Function that writes a view has this result alone.
        copy_into(targets, record(inputs, scalars, chain, results, overwritten))
        return
    passes, _, results = _checked(inputs, chain, results, overwritten)
    places = [next((i for i, one in enumerate(inputs) if one is target), None) for target in targets]
    others = [i for i in range(len(inputs)) if i not in places]
    call = _Call(passes, chain, results, scalars, targets, [*places, *others])
    _Written.apply(call, *targets, *(inputs[i] for i in others))
