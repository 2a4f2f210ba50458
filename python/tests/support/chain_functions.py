"""The functions of the language in PyTorch: the text of a chain, run as Python over these, is an oracle with autograd."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy
import torch
import torch.nn.functional as F


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    axes = list(axis) if isinstance(axis, tuple) else [axis]
    if axes and axes[-1] is ...:
        return tuple(a % rank for a in axes[:-1]) + tuple(range(axes[-2] % rank + 1, rank))
    return tuple(a % rank for a in axes)


def _reduction(function: Callable) -> Callable:
    def reduce(x, axis=None, keepdim=False, **options):
        axes = _axes(axis, x.dim())
        return function(x, axes, keepdim, **options) if axes else x

    return reduce


def _prod(x, axes, keepdim):
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim)
    return x


def _real(x):
    return x.double() if x.dtype == torch.bool else x


def _tensor(value, like):
    return value if isinstance(value, torch.Tensor) else torch.tensor(float(value), dtype=like.dtype)


def _binary(function: Callable) -> Callable:
    def call(a, b):
        like = a if isinstance(a, torch.Tensor) else b
        return function(_tensor(a, like), _tensor(b, like))

    return call


def _clamp(x, min=-math.inf, max=math.inf):
    if isinstance(min, torch.Tensor) or isinstance(max, torch.Tensor):
        return torch.clamp(x, _tensor(min, x), _tensor(max, x))
    return torch.clamp(x, min, max)


def _where(condition, a, b):
    like = a if isinstance(a, torch.Tensor) else b if isinstance(b, torch.Tensor) else torch.zeros((), dtype=torch.float64)
    return torch.where(condition, _tensor(a, like), _tensor(b, like))


def _leaky_relu(x, negative_slope=0.01):
    if not isinstance(negative_slope, torch.Tensor):
        return F.leaky_relu(x, negative_slope)
    return torch.where(x > 0, x, negative_slope * x)  # what prelu is, for weights of any shape


def _norm_over(x, axes, weight, bias, eps):
    mean = x.mean(axes, keepdim=True)
    y = (x - mean) / torch.sqrt(x.var(axes, correction=0, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _layer_norm(x, weight=None, bias=None, eps=1e-5, axis=-1):
    if axis == -1 and (weight is None or weight.shape == x.shape[-1:]):
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)
    return _norm_over(x, _axes(axis, x.dim()), weight, bias, eps)


def _rms_norm(x, weight=None, eps=1.1920928955078125e-07, axis=-1):
    if axis == -1:
        return F.rms_norm(x, x.shape[-1:], weight, eps)
    y = x * torch.rsqrt(x.square().mean(_axes(axis, x.dim()), keepdim=True) + eps)
    return y if weight is None else y * weight


def _along(vector, other, dim):
    shape = [1] * other.dim()
    shape[dim] = -1
    return vector.reshape(shape)


def _batch_norm(x, weight=None, bias=None, eps=1e-5):
    return F.batch_norm(x, None, None, weight, bias, training=True, eps=eps)


def _var_mean(x, axis=None, correction=1, keepdim=False):
    return torch.var_mean(x, _axes(axis, x.dim()), correction=correction, keepdim=keepdim)


def _window(x, dim, size, stride):
    windows = x.unfold(dim, size, stride)
    return [windows[..., i] for i in range(size)]


def _rope(q, cos, sin):
    a, b = q.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _dequantize(values, scale, block=0):
    return (values.unflatten(-1, (-1, block)) * scale[..., None]).flatten(-2) if block else values * scale


def _upsample(x, factor):
    return F.interpolate(x, scale_factor=factor, mode="nearest")


def _softmax(x, axis):
    axes = _axes(axis, x.dim())
    return F.softmax(x, axes[0]) if len(axes) == 1 else torch.exp(x - torch.logsumexp(x, axes, keepdim=True))


def _log_softmax(x, axis):
    axes = _axes(axis, x.dim())
    return F.log_softmax(x, axes[0]) if len(axes) == 1 else x - torch.logsumexp(x, axes, keepdim=True)


def _celu(x, alpha=1.0):
    if not isinstance(alpha, torch.Tensor):
        return F.celu(x, alpha)
    return torch.where(x > 0, x, alpha * torch.expm1(x / alpha))


def _elu(x, alpha=1.0):
    return F.elu(x, alpha) if not isinstance(alpha, torch.Tensor) else torch.where(x > 0, x, alpha * torch.expm1(x))


def _philox(counter, key):
    """Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011) of NumPy arrays of 32-bit words in 64 bits."""
    low = numpy.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = counter[0] * numpy.uint64(0xD2511F53), counter[2] * numpy.uint64(0xCD9E8D57)
        counter = [(b >> numpy.uint64(32)) ^ counter[1] ^ key[0], b & low, (a >> numpy.uint64(32)) ^ counter[3] ^ key[1], a & low]
        key = [(key[0] + numpy.uint64(0x9E3779B9)) & low, (key[1] + numpy.uint64(0xBB67AE85)) & low]
    return counter


def _rand_like(x, seed, offset):
    index = numpy.arange(x.numel(), dtype=numpy.uint64)
    words = [numpy.full_like(index, word % 2**32) for word in (offset, offset >> 32, seed, seed >> 32)]
    four = index // numpy.uint64(4)
    drawn = _philox([four & numpy.uint64(0xFFFFFFFF), four >> numpy.uint64(32), words[0], words[1]], words[2:])
    word = numpy.choose((index % numpy.uint64(4)).astype(numpy.int64), drawn)
    return torch.from_numpy((word >> numpy.uint64(8)).astype(numpy.float64) / 2**24).to(x.dtype).reshape(x.shape)


def _dropout(x, p, seed, offset):
    keep = _rand_like(x.double(), seed, offset) >= p
    return x * keep * (1 / (1 - p) if p < 1 else 0.0)


_UNARY = """abs sign square sqrt rsqrt reciprocal floor ceil round trunc exp exp2 expm1 log log1p log2 sin cos tanh erf isnan isinf
            relu sigmoid""".split()
_VIEWS = """narrow select chunk split permute transpose unsqueeze squeeze reshape cat stack tril triu pixel_shuffle
            pixel_unshuffle roll flip""".split()
_POOLS = [f"{kind}_pool{rank}d" for kind in ("max", "avg", "lp", "adaptive_avg", "adaptive_max") for rank in (1, 2, 3)]
_PLAIN = "relu6 selu silu logsigmoid hardswish mish softsign tanhshrink".split()

FUNCTIONS: dict[str, Any] = {
    "true": True,
    "false": False,
    "none": None,
    "inf": math.inf,
    "nan": math.nan,
    **{name: getattr(torch, name) for name in _UNARY},
    **{name: getattr(F, name) for name in _PLAIN},
    **{name: getattr(torch, name) for name in _VIEWS},
    **{name: getattr(F, name) for name in _POOLS if hasattr(F, name)},
    **{f"upsample_nearest{rank}d": _upsample for rank in (1, 2, 3)},
    "f32": torch.float32,
    "f64": torch.float64,
    "bool": torch.bool,
    "i32": torch.int32,
    "cast": lambda x, dtype: x.to(dtype),
    "hardsigmoid": lambda x: F.relu6(x + 3) / 6,  # PyTorch's own multiplies gradients by a sixth in f32
    "pow": lambda a, b: a**b,
    "fma": lambda a, b, c: a * b + c,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "minimum": _binary(torch.minimum),
    "maximum": _binary(torch.maximum),
    "clamp": _clamp,
    "hardtanh": lambda x, min_val=-1.0, max_val=1.0: F.hardtanh(x, min_val, max_val),
    "where": _where,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "celu": _celu,
    "gelu": lambda x, approximate="none": F.gelu(x, approximate=approximate),
    "softplus": lambda x, beta=1.0, threshold=20.0: F.softplus(x, beta, threshold),
    "threshold": lambda x, threshold, value: F.threshold(x, threshold, value),
    "eq": torch.eq,
    "gt": torch.gt,
    "sum": _reduction(lambda x, axes, keepdim: _real(x).sum(axes, keepdim)),
    "mean": _reduction(lambda x, axes, keepdim: _real(x).mean(axes, keepdim)),
    "prod": _reduction(_prod),
    "amax": _reduction(lambda x, axes, keepdim: x.amax(axes, keepdim)),
    "amin": _reduction(lambda x, axes, keepdim: x.amin(axes, keepdim)),
    "var": _reduction(lambda x, axes, keepdim, correction=1: x.var(axes, correction=correction, keepdim=keepdim)),
    "std": _reduction(lambda x, axes, keepdim, correction=1: x.std(axes, correction=correction, keepdim=keepdim)),
    "any": _reduction(lambda x, axes, keepdim: x.bool().any(axes, keepdim)),
    "all": _reduction(lambda x, axes, keepdim: x.bool().all(axes, keepdim)),
    "norm": lambda x, p=2, axis=None, keepdim=False: torch.linalg.vector_norm(x, p, _axes(axis, x.dim()), keepdim),
    "logsumexp": _reduction(lambda x, axes, keepdim: torch.logsumexp(x, axes, keepdim)),
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": lambda x, groups, weight=None, bias=None, eps=1e-5: F.group_norm(x, groups, weight, bias, eps),
    "instance_norm": lambda x, weight=None, bias=None, eps=1e-5: F.instance_norm(x, weight=weight, bias=bias, eps=eps),
    "batch_norm": _batch_norm,
    "var_mean": _var_mean,
    "rand_like": _rand_like,
    "dropout": _dropout,
    "normalize": lambda x, p=2, axis=1, eps=1e-12: F.normalize(x, p, axis, eps),
    "unflatten": lambda x, dim, sizes: x.unflatten(dim, sizes),
    "flatten": lambda x, start_dim=0, end_dim=-1: x.flatten(start_dim, end_dim),
    "along": _along,
    "expand": lambda x, sizes: x.expand(sizes),
    "pad": lambda x, pad, value=0.0: F.pad(x, pad, value=value),
    "window": _window,
    "rope": _rope,
    "dequantize": _dequantize,
    "expand_as": lambda x, other: x.expand_as(other),
    "reshape_as": lambda x, other: x.reshape_as(other),
    "sum_to": lambda x, other: x.sum_to_size(other.shape),
    "unsqueeze_as": lambda x, other, axis: x.reshape(
        [1 if d in _axes(axis, other.dim()) else n for d, n in enumerate(other.shape)]
    ),
    "count": lambda x, axis=None: math.prod(x.shape[a] for a in _axes(axis, x.dim())),
}


def run_chain(text: str, operands: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """The results of a chain, by PyTorch. `and`, `or` and `not` of tensors are not supported."""
    names = dict(operands)
    *statements, last = [part.strip() for part in text.split(";")]
    for statement in statements:
        name, expression = statement.split("=", 1)
        names[name.strip()] = eval(expression.strip(), {**FUNCTIONS, **names})  # noqa: S307  the text is the test's own
    found = eval(last.removeprefix("return").strip(), {**FUNCTIONS, **names})  # noqa: S307
    return list(found) if isinstance(found, tuple) else [found]
