"""PyTorch's reductions, norms, splits and merges of dimensions as rows of the table of _rows_torch.py. Used by _libraries.py."""

from __future__ import annotations

from ._exact import Known, convert
from ._ops import Unsupported
from ._rows import Const, Either, Inert, Missing
from ._rows_torch import TABLE, everywhere, our_dtype
from ._rows_torch_views import position

_row = TABLE.add


# ---- reductions


def axes_of(name, dim, input):
    """The `axis` of a reduction over `dim`; none for all. Of a single element none can be named."""
    if isinstance(dim, (list, tuple)):
        if not dim:
            raise Unsupported(f"'{name}' over no dimensions")
        dim = tuple(dim)
    if dim is None or input.shape == ():
        return {}
    return {"axis": dim}


def _typed(c, input, dtype, name):
    return input if dtype is None else convert(c, input, our_dtype(name, dtype), name)


def _sum_like(name):
    def row(c, input, dim: Const = None, keepdim: Const = False, *, dtype: Const = None):
        value = _typed(c, input, dtype, name)
        value.shape = input.shape
        return c.emit(name, value, **axes_of(name, dim, input), keepdim=bool(keepdim))

    return row


for _name in ("sum", "mean", "prod"):
    everywhere(_name)(_sum_like(_name))


def _extreme_like(name):
    def row(c, input, dim: Const = None, keepdim: Const = False):
        return c.emit(name, input, **axes_of(name, dim, input), keepdim=bool(keepdim))

    return row


for _name in ("amax", "amin", "any", "all", "logsumexp"):
    everywhere(_name)(_extreme_like(_name))
_row("special.logsumexp")(_extreme_like("logsumexp"))


class Extremes(tuple):
    """What torch.max and torch.min over a dimension give: values and positions."""

    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])


def _extreme(name, binary, method):
    def row(c, input, other: Either = None, keepdim: Const = False, *, dim: Const = None):
        if isinstance(other, Known):
            return c.emit(binary, input, other)
        dim = other if dim is None else dim
        if dim is None:
            return c.emit(name, input, keepdim=False)
        if isinstance(dim, (list, tuple)):
            raise Unsupported(f"'{method}' over several dimensions")
        # Over all dimensions PyTorch's gradient is shared among equals, along one it goes to the first of them.
        value = c.emit(name, input, **axes_of(method, dim, input), keepdim=bool(keepdim), ties="first")
        try:
            return Extremes((value, position(c, f"arg{method}", input, dim, keepdim, method)))
        except Unsupported as problem:
            return Extremes((value, Missing(str(problem))))

    return row


everywhere("max")(_extreme("amax", "maximum", "max"))
everywhere("min")(_extreme("amin", "minimum", "min"))


def _variance(c, input, dim, unbiased, correction, keepdim, function="var"):
    if isinstance(dim, bool):  # torch.var(x, unbiased)
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = 1 if unbiased else 0
    correction = 1 if correction is None else correction
    made = c.emit(function, input, **axes_of(function, dim, input), correction=correction, keepdim=bool(keepdim))
    return made, dim


@everywhere("var")
def _var(c, input, dim: Const = None, unbiased: Const = None, keepdim: Const = False, *, correction: Const = None):
    return _variance(c, input, dim, unbiased, correction, keepdim)[0]


@everywhere("std")
def _std(c, input, dim: Const = None, unbiased: Const = None, keepdim: Const = False, *, correction: Const = None):
    return _variance(c, input, dim, unbiased, correction, keepdim, "std")[0]


@_row("torch.var_mean")
def _var_mean(c, input, dim: Const = None, unbiased: Const = None, keepdim: Const = False, *, correction: Const = None):
    variance, dim = _variance(c, input, dim, unbiased, correction, keepdim)
    return variance, c.emit("mean", input, **axes_of("mean", dim, input), keepdim=bool(keepdim))


@_row("torch.std_mean")
def _std_mean(c, input, dim: Const = None, unbiased: Const = None, keepdim: Const = False, *, correction: Const = None):
    variance, mean = _var_mean(c, input, dim, unbiased, keepdim, correction=correction)
    return c.emit("sqrt", variance), mean


def vector_norm(c, input, order, dim, keepdim):
    if isinstance(order, bool) or not isinstance(order, (int, float)):
        raise Unsupported(f"'norm' of the order {order!r}")
    return c.emit("norm", input, p=order, **axes_of("norm", dim, input), keepdim=bool(keepdim))


@everywhere("norm")
def _norm(c, input, p: Const = "fro", dim: Const = None, keepdim: Const = False, dtype: Const = None):
    input = _typed(c, input, dtype, "norm")
    return vector_norm(c, input, 2 if p == "fro" or p is None else p, dim, keepdim)


@_row("linalg.vector_norm")
def _linalg_vector_norm(c, x, ord: Const = 2, dim: Const = None, keepdim: Const = False, *, dtype: Const = None):
    return vector_norm(c, _typed(c, x, dtype, "vector_norm"), ord, dim, keepdim)


@_row("linalg.norm")
def _linalg_norm(c, A, ord: Const = None, dim: Const = None, keepdim: Const = False, *, dtype: Const = None):
    order, count = matrix_or_vector(ord, dim, A)
    if count == 2 and order not in (None, "fro"):
        raise Unsupported(f"'norm' of matrices of the order {order!r}")
    return vector_norm(c, _typed(c, A, dtype, "norm"), 2 if order in (None, "fro") else order, dim, keepdim)


def matrix_or_vector(order, dim, input):
    """The order of linalg.norm, and how many dimensions a norm with an order is of."""
    if dim is None:
        return order, len(input.shape) if order is not None else 1
    return order, len(dim) if isinstance(dim, (list, tuple)) else 1


# ---- normalisation


def _along_dim(name):
    def row(c, input, dim: Const, dtype: Const = None):
        return _softmax(c, name, input, dim, dtype)

    return row


def _softmax(c, name, input, dim, dtype):
    if dim is None or input.shape == ():
        raise Unsupported(f"'{name}' without dim, or of a single element")
    return c.emit(name, _typed(c, input, dtype, name), axis=dim)


def _functional_along_dim(name, negated=False):
    def row(c, input, dim: Const = None, _stacklevel: Const = 3, dtype: Const = None):
        return _softmax(c, name, c.emit("neg", input) if negated else input, dim, dtype)

    return row


for _name in ("softmax", "log_softmax"):
    everywhere(_name)(_along_dim(_name))
    _row(f"special.{_name}")(_along_dim(_name))
    _row(f"F.{_name}")(_functional_along_dim(_name))


def _last(input, normalized_shape):
    shape = tuple(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else (normalized_shape,)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        raise Unsupported(f"a norm over the shape {shape} of a tensor of the shape {tuple(input.shape)}")
    return tuple(range(-len(shape), 0))


@_row("F.layer_norm")
def _layer_norm(c, input, normalized_shape: Const, weight=None, bias=None, eps: Const = 1e-5):
    return c.emit("layer_norm", input, weight, bias, eps=eps, axis=_last(input, normalized_shape))


@_row("torch.layer_norm")
def _torch_layer_norm(
    c, input, normalized_shape: Const, weight=None, bias=None, eps: Const = 1e-5, cudnn_enable: Const = True
):
    return _layer_norm(c, input, normalized_shape, weight, bias, eps)


@_row("F.rms_norm torch.rms_norm")
def _rms_norm(c, input, normalized_shape: Const, weight=None, eps: Const = None):
    if eps is None:
        import torch

        wide = torch.float64 if input.dtype == "f64" else torch.float32
        eps = torch.finfo(wide).eps
    return c.emit("rms_norm", input, weight, eps=eps, axis=_last(input, normalized_shape))


@_row("F.group_norm")
def _group_norm(c, input, num_groups: Const, weight=None, bias=None, eps: Const = 1e-5):
    return c.emit("group_norm", input, num_groups, weight, bias, eps=eps)


@_row("torch.group_norm")
def _torch_group_norm(
    c, input, num_groups: Const, weight=None, bias=None, eps: Const = 1e-5, cudnn_enabled: Const = True
):
    return _group_norm(c, input, num_groups, weight, bias, eps)


@_row("F.instance_norm")
def _instance_norm(
    c,
    input,
    running_mean: Inert = None,
    running_var: Inert = None,
    weight=None,
    bias=None,
    use_input_stats: Inert = True,
    momentum: Const = 0.1,
    eps: Const = 1e-5,
):
    if len(input.shape) < 3:
        raise Unsupported("'instance_norm' of fewer than 3 dimensions")
    return c.emit("instance_norm", input, weight, bias, eps=eps)


@_row("F.batch_norm")
def _batch_norm(
    c,
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training: Const = False,
    momentum: Const = 0.1,
    eps: Const = 1e-5,
):
    if len(input.shape) < 2:
        raise Unsupported("'batch_norm' of fewer than 2 dimensions")
    if training and (running_mean is not None or running_var is not None):
        raise Unsupported("'batch_norm' that changes its running statistics: give None for both, and update them outside")
    if training:
        return c.emit("batch_norm", input, weight, bias, eps=eps)

    def channels(vector):
        return c.emit("along", vector, input, 1)

    scale = channels(c.emit("rsqrt", c.emit("add", running_var, eps)))
    value = c.emit("mul", c.emit("sub", input, channels(running_mean)), scale)
    value = value if weight is None else c.emit("mul", value, channels(weight))
    return value if bias is None else c.emit("add", value, channels(bias))


@_row("F.normalize")
def _normalize(c, input, p: Const = 2.0, dim: Const = 1, eps: Const = 1e-12):
    if isinstance(dim, (list, tuple)) and not dim or input.shape == ():
        raise Unsupported("'normalize' over no dimensions")
    return c.emit("normalize", input, p=p, axis=dim, eps=eps)


# ---- shapes


@everywhere("unflatten")
def _unflatten(c, input, dim: Const, sizes: Const):
    if len(sizes) != 2:
        raise Unsupported("'unflatten' into other than two dimensions")
    return c.emit("unflatten", input, dim, tuple(sizes))


@everywhere("flatten")
def _flatten(c, input, start_dim: Const = 0, end_dim: Const = -1):
    rank = len(input.shape)
    if not rank:
        raise Unsupported("'flatten' of a single element")
    return input if start_dim % rank == end_dim % rank else c.emit("flatten", input, start_dim, end_dim)


@everywhere("unsqueeze")
def _unsqueeze(c, input, dim: Const):
    rank = len(input.shape)
    if not rank:
        raise Unsupported("'unsqueeze' of a single element")
    dim = dim if dim >= 0 else dim + rank + 1
    return c.emit("unflatten", input, dim, (1, -1)) if dim < rank else c.emit("unflatten", input, -1, (-1, 1))
