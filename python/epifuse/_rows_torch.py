"""PyTorch's elementwise functions and methods as rows: of `torch`, of torch.nn.functional (F), of torch.special, and of
tensors (Tensor). Used by _libraries.py; _rows_torch_shapes.py has the others."""

from __future__ import annotations

import math

from ._arrays import dtype_name
from ._exact import Known, constant, convert, kind_of
from ._ops import Unsupported, Value
from ._rows import Const, Inert, Table

TABLE = Table()
_row = TABLE.add


def everywhere(*names):
    """As a function of torch and as a method."""
    return _row(*(f"torch.{name} Tensor.{name}" for name in " ".join(names).split()))


# ---- elementwise, as the library's own table has them


def _unary(operation):
    def row(c, input):
        return c.emit(operation, input)

    return row


def _binary(operation):
    def row(c, input, other):
        return c.emit(operation, input, other)

    return row


for _name in (
    "abs neg sqrt rsqrt reciprocal square floor ceil trunc exp exp2 expm1 log log1p log2 sin cos tanh erf sign sigmoid "
    "isnan isinf logical_not"
).split():
    everywhere(_name)(_unary(_name))
for _alias, _name in {"absolute": "abs", "negative": "neg", "fix": "trunc", "sgn": "sign"}.items():
    everywhere(_alias)(_unary(_name))
for _alias, _name in {
    "special.erf": "erf",
    "special.exp2": "exp2",
    "special.expm1": "expm1",
    "special.log1p": "log1p",
    "special.expit": "sigmoid",
    "torch.relu Tensor.relu": "relu",
    "F.sigmoid": "sigmoid",
    "F.tanh": "tanh",
    "F.softsign": "softsign",
    "F.tanhshrink": "tanhshrink",
    "F.logsigmoid": "logsigmoid",
}.items():
    _row(_alias)(_unary(_name))
for _name in "maximum minimum logical_and logical_or logical_xor".split():
    everywhere(_name)(_binary(_name))


@everywhere("isfinite")
def _isfinite(c, input):
    return c.emit("lt", c.emit("abs", input), math.inf) if kind_of(input) == "float" else c.emit("eq", input, input)


@everywhere("isposinf")
def _isposinf(c, input):
    return c.emit("eq", input, math.inf)


@everywhere("isneginf")
def _isneginf(c, input):
    return c.emit("eq", input, -math.inf)


@everywhere("round")
@_row("special.round")
def _round(c, input, *, decimals: Inert = 0):
    return c.emit("round", input)


@everywhere("log10")
def _log10(c, input):
    return c.emit("mul", c.emit("log2", input), math.log10(2))


@everywhere("tan")
def _tan(c, input):
    return c.emit("div", c.emit("sin", input), c.emit("cos", input))


# ---- arithmetic


def are_truth(*values):
    return {kind_of(value) for value in values} == {"bool"}


def bits(c, name, operation, *operands):
    """What the function `name` does with each bit of its operands."""
    if not are_truth(*operands):
        raise Unsupported(f"'{name}' of integers: a chain has no bits, only truth values")
    return c.emit(f"logical_{operation}", *operands)


@everywhere("add")
def _add(c, input, other, *, alpha=1):
    if are_truth(input, other):
        if alpha is True or alpha == 1:
            return c.emit("logical_or", input, other)
        raise Unsupported("'add' of truth values with alpha")
    return c.emit("add", input, other if _is(alpha, 1) else c.emit("mul", other, alpha))


@everywhere("sub subtract")
def _sub(c, input, other, *, alpha=1):
    return c.emit("sub", input, other if _is(alpha, 1) else c.emit("mul", other, alpha))


@_row("torch.rsub")
def _rsub(c, input, other, *, alpha=1):
    return c.emit("sub", other, input if _is(alpha, 1) else c.emit("mul", input, alpha))


@everywhere("mul multiply")
def _mul(c, input, other):
    return c.emit("logical_and" if are_truth(input, other) else "mul", input, other)


def _is(value, number):
    return not isinstance(value, Value) and value == number


@everywhere("div divide")
def _div(c, input, other, *, rounding_mode: Const = None):
    if rounding_mode is None:
        return c.emit("div", input, other)
    if rounding_mode == "floor":
        return floor_divide(c, input, other)
    if rounding_mode == "trunc":
        return trunc_divide(c, input, other)
    raise Unsupported(f"'div' with rounding_mode={rounding_mode!r}")


@everywhere("true_divide")
def _true_divide(c, input, other):
    return c.emit("div", input, other)


def _integers(a, b):
    return "float" not in (kind_of(a), kind_of(b))


def check_divisor(name, input, other):
    """Integers are divided by constants only: at 0 eager execution has an error, or a value of its own."""
    if _integers(input, other) and (isinstance(other, Value) or not other):
        raise Unsupported(f"'{name}' of integers by anything but a constant other than 0")


def floor_divide(c, input, other):
    """Python's, PyTorch's and NumPy's algorithm: the quotient of a multiple, not the floor of a rounded quotient."""
    check_divisor("floor_divide", input, other)
    rest = c.emit("fmod", input, other)
    quotient = c.emit("div", c.emit("sub", input, rest), other)
    opposite = c.emit("logical_xor", c.emit("lt", other, 0), c.emit("lt", rest, 0))
    below = c.emit("logical_and", c.emit("ne", rest, 0), opposite)
    quotient = c.emit("round", c.emit("where", below, c.emit("sub", quotient, 1), quotient))
    if _integers(input, other):
        return _quotient_of_integers(quotient, input, other, math.floor)
    true = c.emit("div", input, other)
    quotient = c.emit("where", c.emit("eq", quotient, 0), c.emit("mul", true, 0), quotient)  # 0 of the quotient's sign
    return c.emit("where", c.emit("eq", other, 0), true, quotient)


def trunc_divide(c, input, other):
    check_divisor("div", input, other)
    if not _integers(input, other):
        return c.emit("trunc", c.emit("div", input, other))
    quotient = c.emit("round", c.emit("div", c.emit("sub", input, c.emit("fmod", input, other)), other))
    return _quotient_of_integers(quotient, input, other, math.trunc)


def _quotient_of_integers(quotient, input, other, rounded):
    low, high, _, standing = _bounds(input)
    ends = [rounded(one / other) for one in (low, high) if math.isfinite(one)]
    made = quotient.again()
    if len(ends) == 2:
        made.low, made.high = min(ends), max(ends)
    made.whole, made.standing = True, standing if standing == 2 else 0
    return made


def _bounds(value):
    return (value.low, value.high, value.whole, value.standing) if isinstance(value, Known) else constant(value)


@everywhere("floor_divide")
def _floor_divide(c, input, other):
    return floor_divide(c, input, other)


@everywhere("remainder")
def _remainder(c, input, other):
    check_divisor("remainder", input, other)
    return c.emit("remainder", input, other)


@everywhere("fmod")
def _fmod(c, input, other):
    check_divisor("fmod", input, other)
    return c.emit("fmod", input, other)


@everywhere("pow")
def _pow(c, input, exponent):
    return c.emit("pow", input, exponent)


@everywhere("positive contiguous detach")
@_row("Tensor.clone torch.clone torch.detach")
def _same(c, input):
    return input


@everywhere("clamp clip")
def _clamp(c, input, min=None, max=None):
    if max is None:
        return input if min is None else c.emit("maximum", input, min)
    return c.emit("minimum", input, max) if min is None else c.emit("clamp", input, min, max)


@everywhere("clamp_min")
def _clamp_min(c, input, min):
    return c.emit("maximum", input, min)


@everywhere("clamp_max")
def _clamp_max(c, input, max):
    return c.emit("minimum", input, max)


@everywhere("masked_fill")
def _masked_fill(c, input, mask, value):
    return c.emit("where", mask, value, input)


@_row("torch.where")
def _where(c, condition, input, other):
    return c.emit("where", condition, input, other)


@_row("Tensor.where")
def _tensor_where(c, input, condition, other):
    return c.emit("where", condition, input, other)


@everywhere("lerp")
def _lerp(c, input, end, weight):
    """PyTorch's two branches: exact at both ends."""
    step = c.emit("sub", end, input)
    near = c.emit("add", input, c.emit("mul", weight, step))
    far = c.emit("sub", end, c.emit("mul", step, c.emit("sub", 1, weight)))
    if not isinstance(weight, Value):
        return near if abs(weight) < 0.5 else far
    return c.emit("where", c.emit("lt", c.emit("abs", weight), 0.5), near, far)


@everywhere("addcmul")
def _addcmul(c, input, tensor1, tensor2, *, value=1):
    return c.emit("add", input, c.emit("mul", tensor1 if _is(value, 1) else c.emit("mul", value, tensor1), tensor2))


@everywhere("addcdiv")
def _addcdiv(c, input, tensor1, tensor2, *, value=1):
    return c.emit("add", input, c.emit("div", tensor1 if _is(value, 1) else c.emit("mul", value, tensor1), tensor2))


# ---- comparisons, in the type that both have in common


def _in_common(c, value, common):
    """`value` as PyTorch compares it: a number, and a tensor of a wider type, is rounded to the common type first."""
    import torch

    if common not in _FLOATS:
        return value
    if not isinstance(value, Known):
        return torch.tensor(value, dtype=torch.float64).to(getattr(torch, _FLOATS[common])).item()
    if value.kind == "float":
        narrower = value.dtype != common and not (common == "f32" and value.dtype in ("f16", "bf16"))
        return value if common == "f64" or not narrower else c.emit("cast", value, Value(common))
    made = value.again()  # an integer becomes the float that is nearest to it, in PyTorch too
    made.standing = 2
    return c.emit("cast", made, Value(common)) if common in ("f16", "bf16") else made


_FLOATS = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def _common_type(*values):
    import torch

    likes = [one.like["number"] if isinstance(one, Known) and one.is_number else one for one in values]
    likes = [one.like["torch"] if isinstance(one, Known) else one for one in likes]
    try:
        return dtype_name(torch.result_type(*likes))
    except ValueError:
        raise Unsupported("a comparison in a type that EpiFuse does not have") from None


def _comparison(operation):
    def row(c, input, other):
        common = _common_type(input, other)
        return c.emit(operation, *(_in_common(c, one, common) for one in (input, other)))

    return row


for _name, _aliases in {
    "eq": "eq",
    "ne": "ne not_equal",
    "lt": "lt less",
    "le": "le less_equal",
    "gt": "gt greater",
    "ge": "ge greater_equal",
}.items():
    everywhere(_aliases)(_comparison(_name))


def _logic(operation):
    def row(c, input, other):
        return bits(c, f"bitwise_{operation}", operation, input, other)

    return row


for _name in ("and", "or", "xor"):
    everywhere(f"bitwise_{_name}")(_logic(_name))
    _row(f"Tensor.__{_name}__")(_logic(_name))


@everywhere("bitwise_not")
def _bitwise_not(c, input):
    return bits(c, "bitwise_not", "not", input)


# ---- activations


def _activation(operation):
    def row(c, input, inplace: Inert = False):
        return c.emit(operation, input)

    return row


for _name in "relu relu6 silu mish hardsigmoid hardswish selu".split():
    _row(f"F.{_name}")(_activation(_name))
_row("torch.selu")(_unary("selu"))


@_row("F.gelu")
def _gelu(c, input, *, approximate: Const = "none"):
    if approximate not in ("none", "tanh"):
        raise Unsupported(f"'gelu' with approximate={approximate!r}")
    return c.emit("gelu" if approximate == "none" else "gelu_tanh", input)


@_row("F.leaky_relu")
def _leaky_relu(c, input, negative_slope=0.01, inplace: Inert = False):
    return c.emit("leaky_relu", input, negative_slope)


@_row("F.elu")
def _elu(c, input, alpha=1.0, inplace: Inert = False):
    return c.emit("elu", input, alpha)


@_row("F.celu")
def _celu(c, input, alpha=1.0, inplace: Inert = False):
    return c.emit("celu", input, alpha)


@_row("torch.celu")
def _torch_celu(c, input, alpha=1.0):
    return c.emit("celu", input, alpha)


@_row("F.hardtanh")
def _hardtanh(c, input, min_val=-1.0, max_val=1.0, inplace: Inert = False):
    return c.emit("clamp", input, min_val, max_val)


@_row("F.softplus")
def _softplus(c, input, beta=1, threshold=20):
    return c.emit("softplus", input, beta, threshold)


@_row("F.threshold")
def _threshold(c, input, threshold, value, inplace: Inert = False):
    return c.emit("threshold", input, threshold, value)


@_row("torch.threshold")
def _torch_threshold(c, input, threshold, value):
    return c.emit("threshold", input, threshold, value)


@_row("F.prelu torch.prelu Tensor.prelu")
def _prelu(c, input, weight):
    if not isinstance(weight, Known) or weight.shape is None or not input.shape and weight.shape:
        raise Unsupported("'prelu' of a single element, or with a weight that is no tensor")
    if math.prod(weight.shape) != 1:  # one a channel
        weight = c.emit("along", weight, input, 1)
    return c.emit("where", c.emit("gt", input, 0), input, c.emit("mul", input, weight))


@_row("F.hardshrink torch.hardshrink Tensor.hardshrink")
def _hardshrink(c, input, lambd=0.5):
    return c.emit("where", c.emit("le", c.emit("abs", input), lambd), 0, input)


@_row("F.softshrink")
def _softshrink(c, input, lambd=0.5):
    low = c.emit("neg", lambd) if isinstance(lambd, Value) else -lambd
    return c.emit("sub", input, c.emit("clamp", input, low, lambd))


@_row("F.dropout")
def _dropout(c, input, p: Const = 0.5, training: Const = True, inplace: Inert = False):
    if training and p:
        raise Unsupported("'dropout' while training, which draws PyTorch's random numbers: epifuse.dropout(x, p, seed, offset) draws in the kernel")
    return input


# ---- types


def our_dtype(name, dtype):
    try:
        return dtype_name(dtype)
    except ValueError:
        raise Unsupported(f"'{name}' with {dtype!r}: only types that EpiFuse has, the device is the launch's") from None


@_row("Tensor.to")
def _to(c, input, dtype: Const, non_blocking: Inert = False, copy: Inert = False):
    import torch

    if not isinstance(dtype, torch.dtype):
        raise Unsupported(f"'to' with {dtype!r}: only types, the device is the launch's")
    return convert(c, input, our_dtype("to", dtype), "to")


@_row("Tensor.type")
def _type(c, input, dtype: Const):
    return _to(c, input, dtype)


@_row("Tensor.type_as")
def _type_as(c, input, other):
    if other.dtype is None:
        raise Unsupported("'type_as' of a type that EpiFuse does not have")
    return convert(c, input, other.dtype, "type_as")


def _as_type(name, dtype):
    def row(c, input):
        return convert(c, input, dtype, name)

    return row


for _name, _type_name in {
    "float": "f32",
    "half": "f16",
    "bfloat16": "bf16",
    "double": "f64",
    "bool": "bool",
    "int": "i32",
    "long": "i64",
    "char": "i8",
    "byte": "u8",
    "short": "i16",
}.items():
    _row(f"Tensor.{_name}")(_as_type(_name, _type_name))
