"""Functions of PyTorch that reach ATen in parts that no chain has: written out in others before that. Used by
_torch_backend.py."""

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import unset_fake_temporarily


def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    """F.instance_norm, which becomes views and a batch norm in training, from a variance and a mean: a reduction over
    the last dimensions. With running statistics PyTorch's own."""
    if running_mean is not None or running_var is not None or not use_input_stats or input.dim() < 3:
        return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    axes = list(range(2, input.dim()))
    variance, mean = torch.var_mean(input, axes, correction=0, keepdim=True)
    value = (input - mean) * torch.rsqrt(variance + eps)
    channels = [-1] + [1] * len(axes)
    if weight is not None:
        value = value * weight.view(channels)
    return (value if bias is None else value + bias.view(channels)).contiguous()  # as PyTorch's own


def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """F.interpolate, which becomes an index tensor for each dimension, as an expansion: where nearest neighbours are
    each element so often, and the input is contiguous, so that the result is. Otherwise PyTorch's own."""
    is_plain = align_corners is None and recompute_scale_factor is None and not antialias
    factors = _factors(input, size, scale_factor, mode) if is_plain else None
    if factors is None:
        return F.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    rank = len(factors)
    value = input[(..., *(key for _ in factors for key in (slice(None), None)))]
    value = value.expand(*input.shape[:-rank], *(n for pair in zip(input.shape[-rank:], factors) for n in pair))
    return value.reshape(*input.shape[:-rank], *(extent * by for extent, by in zip(input.shape[-rank:], factors)))


def _factors(input, size, scale_factor, mode):
    """How often each element is repeated, by dimension; None where that is no answer."""
    offset = {"nearest": 0.0, "nearest-exact": 0.5}.get(mode)
    if offset is None or not isinstance(input, torch.Tensor) or input.dim() not in (3, 4, 5):
        return None
    extents = input.shape[2:]
    if any(type(one) is not int or one == 0 for one in input.shape) or (size is None) == (scale_factor is None):
        return None
    if not input.is_floating_point() or not input.is_contiguous():
        return None
    given = size if scale_factor is None else scale_factor
    given = list(given) if isinstance(given, (list, tuple)) else [given] * len(extents)
    if len(given) != len(extents) or any(type(one) not in (int, float) for one in given):
        return None
    factors = [one / extent if scale_factor is None else one for one, extent in zip(given, extents)]
    if any(one < 1 or one != int(one) for one in factors):
        return None
    return list(map(int, factors)) if all(_repeats_each(*one, offset) for one in zip(extents, factors)) else None


def _repeats_each(extent, factor, offset):
    """Whether PyTorch, which multiplies positions by a float, finds each element so often."""
    with unset_fake_temporarily(), torch.utils._python_dispatch._disable_current_modes():
        places = torch.arange(extent * int(factor), dtype=torch.float32) + offset
        found = (places * torch.tensor(1 / factor, dtype=torch.float32)).floor().long()
        return bool((found == torch.arange(extent).repeat_interleave(int(factor))).all())


_SPELLED = {F.instance_norm: instance_norm, F.interpolate: interpolate}


def spell_out(module):
    """Puts these in the place of PyTorch's in Dynamo's graph."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in _SPELLED:
            node.target = _SPELLED[node.target]
    module.recompile()
