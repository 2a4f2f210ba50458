"""Functions of PyTorch that reach ATen in parts that no chain has: written out in others before that. Used by
_torch_backend.py."""

import torch
import torch.nn.functional as F

from . import _windows


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
    is_plain = is_plain and isinstance(input, torch.Tensor) and input.is_floating_point() and input.is_contiguous()
    factors = _windows.factors(input.shape, size, scale_factor, mode) if is_plain else None
    if factors is None:
        return F.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    rank = len(factors)
    value = input[(..., *(key for _ in factors for key in (slice(None), None)))]
    value = value.expand(*input.shape[:-rank], *(n for pair in zip(input.shape[-rank:], factors) for n in pair))
    return value.reshape(*input.shape[:-rank], *(extent * by for extent, by in zip(input.shape[-rank:], factors)))


_SPELLED = {F.instance_norm: instance_norm, F.interpolate: interpolate}


def spell_out(module):
    """Puts these in the place of PyTorch's in Dynamo's graph."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in _SPELLED:
            node.target = _SPELLED[node.target]
    module.recompile()
