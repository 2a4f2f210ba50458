"""What PyTorch's operations are in the language of chains. The library's names, parameters and defaults are PyTorch's,
so most rows come from its own table; written here is what differs. _trace.py reads functions with it, _torch_backend.py
graphs of ATen operations."""

import math
import re

from ._arrays import dtype_name
from ._core import operations


class Unsupported(Exception):
    """An operation, or a way of using one, that a chain does not have. The text says which and why."""


class Value:
    """A value of a chain that is being written. `name` is what the text calls it."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name


RESERVED = {
    "input",
    "scalar",
    "return",
    "and",
    "or",
    "not",
    "inf",
    "nan",
    "true",
    "false",
    "none",
    "f64",
    "f32",
    "f16",
    "bf16",
    "f8e4m3",
    "f8e5m2",
    "i8",
    "u8",
    "i32",
    "i64",
    "bool",
}


class Chain:
    """Writes the text of a chain, a statement per operation."""

    def __init__(self):
        self.inputs, self.scalars, self.lines = [], [], []

    def input(self, name):
        self.inputs.append(name)
        return Value(name)

    def scalar(self, name):
        self.scalars.append(name)
        return Value(name)

    def emit(self, function, *args, **kwargs):
        parts = [_argument(one) for one in args] + [f"{key}={_argument(one)}" for key, one in kwargs.items()]
        value = Value(f"_{len(self.lines)}")
        self.lines.append(f"{value.name} = {function}({', '.join(parts)})")
        return value

    def text(self, results, only_used=False):
        inputs, scalars = self.inputs, self.scalars
        if only_used:
            used = set(re.findall(r"\w+", " ".join([*self.lines, *(one.name for one in results)])))
            inputs, scalars = ([one for one in many if one in used] for many in (inputs, scalars))
        head = [f"input {', '.join(inputs)}"] if inputs else []
        head += [f"scalar {', '.join(scalars)}"] if scalars else []
        # In parentheses a result is not called by the name of its statement.
        return "; ".join(head + self.lines + ["return " + ", ".join(f"({one.name})" for one in results)])


def _argument(value):
    if isinstance(value, Value):
        return value.name
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (int, float)):
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "(-inf)"
        return repr(value) if value >= 0 else f"({value!r})"
    if isinstance(value, (list, tuple)):
        return _argument(value[0]) if len(value) == 1 else f"({', '.join(_argument(one) for one in value)})"
    raise Unsupported(f"an argument is a {type(value).__module__}.{type(value).__qualname__}")


# ---- rows of the library's table


def _generic(name, parameters):
    def row(c, *args, **kwargs):
        kwargs.pop("inplace", None)
        if kwargs.pop("out", None) is not None:
            raise Unsupported(f"'{name}' with out=")
        if len(args) > len(parameters) and isinstance(args[-1], bool):
            args = args[:-1]  # F.relu6(x, inplace)
        given = dict(zip(parameters, args))
        kwargs = {"input" if key == "self" else key: value for key, value in kwargs.items() if value is not None}
        given.update(kwargs)
        unknown = [key for key in given if key not in parameters and key != "approximate"]
        if unknown or len(args) > len(parameters):
            raise Unsupported(f"'{name}' with the argument {unknown[0] if unknown else args[-1]!r}")
        return c.emit(name, **given)

    return row


TABLE = {}
for _signature, _group, _ in operations():
    _name, _, _inside = _signature.removesuffix(")").partition("(")
    if _group not in ("reductions", "normalisation", "shape"):
        TABLE[_name] = _generic(_name, [re.split(r"[=\s]", one.strip())[0] for one in _inside.split(",")])

_ALIASES = {
    "divide": "div",
    "true_divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "negative": "neg",
    "absolute": "abs",
    "fabs": "abs",
    "power": "pow",
    "float_power": "pow",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "equal": "eq",
    "not_equal": "ne",
    "rint": "round",
    "clip": "clamp",
    "special_erf": "erf",
    "special_expm1": "expm1",
    "special_exp2": "exp2",
    "special_log1p": "log1p",
    "log_sigmoid": "logsigmoid",
    "fix": "trunc",
    "mod": "remainder",
    "pos": "positive",
    "truediv": "div",
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "xor": "bitwise_xor",
    "invert": "bitwise_not",
}


def named(*names):
    def add(function):
        for name in names:
            TABLE[name] = function
        return function

    return add


# ---- arithmetic and activations whose arguments differ


@named("add")
def _add(c, input, other, *, alpha=1, out=None):
    return c.emit("add", input, other if alpha == 1 else c.emit("mul", other, alpha))


@named("sub")
def _sub(c, input, other, *, alpha=1, out=None):
    return c.emit("sub", input, other if alpha == 1 else c.emit("mul", other, alpha))


@named("rsub")
def _rsub(c, input, other, *, alpha=1):
    return c.emit("sub", other, input if alpha == 1 else c.emit("mul", input, alpha))


@named("div")
def _div(c, input, other, *, rounding_mode=None, out=None):
    quotient = c.emit("div", input, other)
    return c.emit(rounding_mode, quotient) if rounding_mode else quotient


@named("rpow")
def _rpow(c, exponent, base):
    return c.emit("pow", base, exponent)


@named("rdiv")
def _rdiv(c, input, other):
    return c.emit("div", other, input)


@named("positive", "contiguous", "clone", "alias", "detach", "lift_fresh_copy")
def _same(c, input, *, memory_format=None):
    return input


@named("dropout")
def _dropout(c, input, p=0.5, training=True, inplace=False):
    if training and p:
        raise Unsupported("'dropout' while training: it draws random numbers")
    return input


@named("clamp")
def _clamp(c, input, min=None, max=None, *, out=None):
    if max is None:
        return input if min is None else c.emit("maximum", input, min)
    return c.emit("minimum", input, max) if min is None else c.emit("clamp", input, min, max)


@named("clamp_min")
def _clamp_min(c, input, min):
    return c.emit("maximum", input, min)


@named("clamp_max")
def _clamp_max(c, input, max):
    return c.emit("minimum", input, max)


@named("masked_fill")
def _masked_fill(c, input, mask, value):
    return c.emit("where", mask, value, input)


@named("where")
def _where(c, condition, input=None, other=None):
    if other is None:
        raise Unsupported("'where' with one argument: how many elements it finds depends on the data")
    return c.emit("where", condition, input, other)


@named("lerp")
def _lerp(c, input, end, weight):
    return c.emit("add", input, c.emit("mul", weight, c.emit("sub", end, input)))


@named("addcmul")
def _addcmul(c, input, tensor1, tensor2, *, value=1):
    product = c.emit("mul", tensor1, tensor2)
    return c.emit("add", input, product if value == 1 else c.emit("mul", product, value))


@named("addcdiv")
def _addcdiv(c, input, tensor1, tensor2, *, value=1):
    quotient = c.emit("div", tensor1, tensor2)
    return c.emit("add", input, quotient if value == 1 else c.emit("mul", quotient, value))


@named("prelu", "_prelu_kernel")
def _prelu(c, input, weight):
    return c.emit("where", c.emit("gt", input, 0), input, c.emit("mul", input, weight))


@named("aten.elu")
def _aten_elu(c, input, alpha=1, scale=1, input_scale=1):
    if scale == 1 and input_scale == 1:
        return c.emit("elu", input, alpha)
    low = c.emit("mul", c.emit("expm1", c.emit("mul", input, input_scale)), alpha * scale)
    return c.emit("where", c.emit("gt", input, 0), c.emit("mul", input, scale), low)


@named("log_sigmoid_forward")
def _log_sigmoid_forward(c, input):
    return c.emit("logsigmoid", input), None


@named("hardshrink")
def _hardshrink(c, input, lambd=0.5):
    return c.emit("where", c.emit("le", c.emit("abs", input), lambd), 0, input)


@named("softshrink")
def _softshrink(c, input, lambd=0.5):
    return c.emit("sub", input, c.emit("clamp", input, -lambd, lambd))


@named("log10")
def _log10(c, input):
    return c.emit("mul", c.emit("log2", input), math.log10(2))


@named("tan")
def _tan(c, input):
    return c.emit("div", c.emit("sin", input), c.emit("cos", input))


@named("bitwise_and", "__and__")
def _and(c, input, other):
    return c.emit("logical_and", input, other)


@named("bitwise_or", "__or__")
def _or(c, input, other):
    return c.emit("logical_or", input, other)


@named("bitwise_xor", "__xor__")
def _xor(c, input, other):
    return c.emit("logical_xor", input, other)


@named("bitwise_not")
def _not(c, input):
    return c.emit("logical_not", input)


@named("isfinite")
def _isfinite(c, input):
    return c.emit("lt", c.emit("abs", input), math.inf)


def cast(c, input, dtype):
    return c.emit("cast", input, Value(dtype_name(dtype)))


@named("to", "type", "astype", "type_as")
def _to(c, input, dtype=None, *rest, **kwargs):
    dtype = kwargs.get("dtype", dtype)
    try:
        return cast(c, input, dtype)
    except ValueError:
        raise Unsupported(f"'to' with {dtype!r}: only types, the device is the launch's") from None


for _method, _dtype in {"float": "f32", "half": "f16", "bfloat16": "bf16", "double": "f64", "bool": "bool"}.items():
    TABLE[_method] = lambda c, input, _dtype=_dtype: cast(c, input, _dtype)


# ---- reductions


def _axes(dim):
    """None: all. A chain has no other way to name no axes."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return {}
    return {"axis": tuple(dim) if isinstance(dim, (list, tuple)) else dim}


def _reduction(name):
    def row(c, input, dim=None, keepdim=False, *, axis=None, keepdims=None, dtype=None, out=None, **more):
        if isinstance(dim, Value):
            raise Unsupported(f"'{name}' of two tensors")
        if more:
            raise Unsupported(f"'{name}' with the argument {next(iter(more))!r}")
        value = c.emit(
            name, input, **_axes(axis if dim is None else dim), keepdim=bool(keepdim if keepdims is None else keepdims)
        )
        return value if dtype is None else cast(c, value, dtype)

    return row


for _name in ("sum", "mean", "prod", "amax", "amin", "any", "all", "logsumexp"):
    TABLE[_name] = _reduction(_name)


def _extreme(name, binary):
    def row(c, input, other=None, keepdim=False, *, dim=None):
        if isinstance(other, (Value, float)):
            return c.emit(binary, input, other)
        if other is None and dim is None:
            return c.emit(name, input)
        return c.emit(
            name, input, axis=other if dim is None else dim, keepdim=keepdim
        ), None  # a chain has no positions

    return row


TABLE["max"], TABLE["min"] = _extreme("amax", "maximum"), _extreme("amin", "minimum")


def _moments(c, input, dim, correction, unbiased, keepdim):
    if isinstance(dim, bool):  # torch.var(x, unbiased)
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = 1 if unbiased else 0
    return c.emit("var", input, **_axes(dim), correction=1 if correction is None else correction, keepdim=bool(keepdim))


@named("var")
def _var(c, input, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=None, ddof=None, keepdims=None):
    return _moments(
        c,
        input,
        axis if dim is None else dim,
        ddof if correction is None else correction,
        unbiased,
        keepdim or keepdims,
    )


@named("std")
def _std(c, input, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=None, ddof=None, keepdims=None):
    return c.emit(
        "sqrt", _var(c, input, dim, unbiased, keepdim, correction=correction, axis=axis, ddof=ddof, keepdims=keepdims)
    )


@named("var_mean")
def _var_mean(c, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return _moments(c, input, dim, correction, unbiased, keepdim), c.emit(
        "mean", input, **_axes(dim), keepdim=bool(keepdim)
    )


@named("std_mean")
def _std_mean(c, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    variance, mean = _var_mean(c, input, dim, unbiased, keepdim, correction=correction)
    return c.emit("sqrt", variance), mean


@named("norm", "vector_norm", "linalg_vector_norm")
def _norm(c, input, p=2, dim=None, keepdim=False, dtype=None, *, ord=None, axis=None, out=None):
    order = p if ord is None else ord
    if order == "fro" or order is None:
        order = 2
    if isinstance(order, str):
        raise Unsupported(f"'norm' of the order {order!r}")
    return c.emit("norm", input, p=order, **_axes(axis if dim is None else dim), keepdim=bool(keepdim))


# ---- normalisation


@named("softmax", "_softmax")
def _softmax(c, input, dim=None, _stacklevel=3, dtype=None, *, axis=None):
    if dim is None and axis is None:
        raise Unsupported("'softmax' without dim")
    return c.emit("softmax", input, axis=axis if dim is None else dim)


@named("log_softmax", "_log_softmax")
def _log_softmax(c, input, dim=None, _stacklevel=3, dtype=None, *, axis=None):
    if dim is None and axis is None:
        raise Unsupported("'log_softmax' without dim")
    return c.emit("log_softmax", input, axis=axis if dim is None else dim)


def _last(normalized_shape):
    count = len(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else 1
    return tuple(range(-count, 0))


@named("layer_norm")
def _layer_norm(c, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=None):
    return c.emit("layer_norm", input, weight, bias, eps=eps, axis=_last(normalized_shape))


@named("native_layer_norm")
def _native_layer_norm(c, input, normalized_shape, weight, bias, eps):
    return _layer_norm(c, input, normalized_shape, weight, bias, eps), None, None


@named("rms_norm")
def _rms_norm(c, input, normalized_shape, weight=None, eps=None):
    return c.emit("rms_norm", input, weight, **({} if eps is None else {"eps": eps}), axis=_last(normalized_shape))


@named("_fused_rms_norm")
def _fused_rms_norm(c, input, normalized_shape, weight, eps):
    return _rms_norm(c, input, normalized_shape, weight, eps), None


@named("group_norm")
def _group_norm(c, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=None):
    return c.emit("group_norm", input, num_groups, weight, bias, eps=eps)


@named("native_group_norm")
def _native_group_norm(c, input, weight, bias, N, C, HxW, group, eps):
    return c.emit("group_norm", input, group, weight, bias, eps=eps), None, None


@named("instance_norm")
def _instance_norm(
    c,
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
    cudnn_enabled=None,
):
    if running_mean is not None or not use_input_stats:
        raise Unsupported("'instance_norm' with running statistics")
    return c.emit("instance_norm", input, weight, bias, eps=eps)


@named("batch_norm")
def _batch_norm(
    c,
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
    cudnn_enabled=None,
):
    if training or running_mean is None:
        raise Unsupported("'batch_norm' while training: it changes its running statistics")

    def channels(vector):
        return c.emit("along", vector, input, 1)

    value = c.emit(
        "mul", c.emit("sub", input, channels(running_mean)), channels(c.emit("rsqrt", c.emit("add", running_var, eps)))
    )
    value = value if weight is None else c.emit("mul", value, channels(weight))
    return value if bias is None else c.emit("add", value, channels(bias))


@named("_native_batch_norm_legit_no_training")
def _native_batch_norm(c, input, weight, bias, running_mean, running_var, momentum, eps):
    return _batch_norm(c, input, running_mean, running_var, weight, bias, False, momentum, eps), None, None


@named("normalize")
def _normalize(c, input, p=2.0, dim=1, eps=1e-12, out=None):
    return c.emit("normalize", input, p=p, axis=dim, eps=eps)


# ---- shapes, as far as no extents are needed


@named("unflatten")
def _unflatten(c, input, dim, sizes):
    if len(sizes) != 2:
        raise Unsupported("'unflatten' into other than two dimensions")
    return c.emit("unflatten", input, dim, tuple(sizes))


@named("flatten")
def _flatten(c, input, start_dim=0, end_dim=-1):
    return c.emit("flatten", input, start_dim, end_dim)


@named("unsqueeze")
def _unsqueeze(c, input, dim):
    if dim >= 0:
        return c.emit("unflatten", input, dim, (1, -1))
    return c.emit("unflatten", input, -1, (-1, 1)) if dim == -1 else c.emit("unflatten", input, dim + 1, (1, -1))


for _alias, _name in _ALIASES.items():
    TABLE.setdefault(_alias, TABLE[_name])


def find(name):
    """The row of an operation, or None. A name that ends in `_` is the operation in place."""
    row = TABLE.get(name)
    return row if row is not None or not name.endswith("_") or name.startswith("_") else TABLE.get(name[:-1])
