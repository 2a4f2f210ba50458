"""What ATen's operations are in the language of chains, types included: a chain has one type to compute in, ATen has a
type at every node. An overload that is not in ROWS stays PyTorch's, and so does a use that a row does not understand
exactly. Used by _partition.py."""

import math
import operator

import torch
from torch._prims_common import elementwise_dtypes, ELEMENTWISE_TYPE_PROMOTION_KIND
from torch.fx import Node

from ._exact import EQUAL
from ._shapes import hint

_aten = torch.ops.aten
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
HALVES = (torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64)
INEXACT = "it computes with integers that a chain need not hold exactly"


class Unfit(Exception):
    """Why a node or a group is no kernel."""


class Call:
    """A node that is being written: its arguments by the names of ATen's schema. `made`: the type of its result."""

    def __init__(self, writer, node):
        self.writer, self.node, self.emit = writer, node, writer.chain.emit
        first = node.meta["val"]
        self.made = (first[0] if isinstance(first, (tuple, list)) else first).dtype
        self.given = {}
        for i, argument in enumerate(node.target._schema.arguments):
            if not argument.kwarg_only and i < len(node.args):
                self.given[argument.name] = node.args[i]
            else:
                self.given[argument.name] = node.kwargs.get(argument.name, argument.default_value)

    def __getitem__(self, name):
        return self.given[name]

    def is_used(self, index):
        """Whether something uses the result of that number."""
        return any(user.target is operator.getitem and user.args[1] == index for user in self.node.users)

    def node_shape(self):
        """The shape of the (first) result."""
        made = self.node.meta["val"]
        return (made[0] if isinstance(made, (tuple, list)) else made).shape

    def is_computed(self, name):
        """Whether the kernel computes the argument, and does not only read it."""
        return self.given[name] in self.writer.values and not hasattr(self.writer.values[self.given[name]], "node")

    def tensor(self, name):
        """The fake tensor of an argument; None for a number and for what is not given."""
        found = self.given[name].meta.get("val") if isinstance(self.given[name], Node) else None
        return found if isinstance(found, torch.Tensor) else None

    def real(self):
        """The type of the result, which must be one of numbers. The writer looks at whether integers are exact."""
        if self.made not in FLOATS + INTEGERS:
            raise Unfit(f"its result is {_name(self.made)}")
        return self.made

    def value(self, name, dtype=None, exact=False, opmath=False):
        """The argument as PyTorch reads it for a computation in `dtype`; its own type by default. `exact`: a small
        error would not stay small, so that 16 bits are rounded as PyTorch rounds them between two operations.
        `opmath`: PyTorch does not round a number to 16 bits here."""
        if dtype is None:
            dtype = self.tensor(name).dtype
        return self.writer.converted(self.given[name], dtype, exact, opmath)

    def promoted(self, *names):
        """The type in which PyTorch compares these."""
        values = []
        for name in names:
            one = self.given[name]
            one = one.meta["val"] if isinstance(one, Node) else one
            values.append(one if isinstance(one, torch.Tensor) else _plain(one))
        kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        return elementwise_dtypes(*values, type_promotion_kind=kind)[1]


def _name(dtype):
    return str(dtype).removeprefix("torch.")


def _plain(number):
    """A number of the same Python type."""
    if isinstance(number, (bool, torch.SymBool)):
        return True
    if isinstance(number, (int, torch.SymInt)):
        return 1
    if isinstance(number, (float, torch.SymFloat)):
        return 1.0
    raise Unfit(f"an argument is a {type(number).__name__}")


ROWS = {}


def _row(*names):
    """Registers a function for overloads by name, such as add.Tensor. Not every PyTorch has all of them."""

    def add(function):
        for name in names:
            packet, _, overload = name.partition(".")
            found = getattr(getattr(_aten, packet, None), overload or "default", None)
            if found is not None:
                ROWS[found] = function
        return function

    return add


# ---- element by element


def _unary(function, exact=False):
    return lambda call: call.emit(function, call.value("self", call.real(), exact))


for _names, _exact in (
    (
        "abs cos erf exp exp2 expm1 hardsigmoid hardswish log log1p log2 mish neg reciprocal relu relu6 rsqrt selu "
        "sigmoid silu sin sqrt square tanh",
        False,
    ),
    ("ceil floor round sign trunc", True),
):
    for _one in _names.split():
        _row(_one)(_unary(_one, _exact))


_row("sgn")(_unary("sign", True))  # of real numbers the same


def _binary(function, truth=None, exact=False, opmath=False):
    """`truth`: what the operation is of two truth values."""

    def row(call):
        if call.made is torch.bool and truth is not None:
            return call.emit(truth, call.value("self", torch.bool), call.value("other", torch.bool))
        kind = call.real()
        return call.emit(function, call.value("self", kind, exact, opmath), call.value("other", kind, exact, opmath))

    return row


_row("mul.Tensor", "mul.Scalar")(_binary("mul", truth="logical_and", opmath=True))
_row("div.Tensor", "div.Scalar")(_binary("div", opmath=True))
_row("maximum", "max.other")(_binary("maximum", truth="logical_or"))
_row("minimum", "min.other")(_binary("minimum", truth="logical_and"))
for _one in ("fmod", "remainder"):
    _row(f"{_one}.Tensor", f"{_one}.Scalar", f"{_one}.Scalar_Tensor")(_binary(_one, exact=True))


@_row("div.Tensor_mode", "div.Scalar_mode")
def _div(call):
    kind, mode = call.real(), call["rounding_mode"]
    # PyTorch rounds a quotient of 16 bits before it cuts it off, and its floor is corrected by a remainder.
    if mode is not None and (mode != "trunc" or kind in HALVES):
        raise Unfit(f"a division with rounding_mode={mode!r} of {_name(kind)}")
    exact = mode is not None
    quotient = call.emit("div", call.value("self", kind, exact, True), call.value("other", kind, exact, True))
    return call.emit("trunc", quotient) if mode else quotient


def _sum(function, first, second):
    def row(call):
        alpha = call["alpha"]
        if isinstance(alpha, Node):
            raise Unfit("its alpha is no constant")
        if call.made is torch.bool:
            if function != "add" or alpha != 1:
                raise Unfit("it subtracts truth values")
            return call.emit("logical_or", call.value("self", torch.bool), call.value("other", torch.bool))
        kind = call.real()
        values = {name: call.value(name, kind, opmath=True) for name in ("self", "other")}
        if alpha != 1:
            scaled = second if function == "add" or first == "self" else "self"
            values[scaled] = call.emit("mul", values[scaled], call.writer.converted(alpha, kind, opmath=True))
        return call.emit(function, values[first], values[second])

    return row


_row("add.Tensor", "add.Scalar")(_sum("add", "self", "other"))
_row("sub.Tensor", "sub.Scalar")(_sum("sub", "self", "other"))
_row("rsub.Tensor", "rsub.Scalar")(_sum("sub", "other", "self"))


@_row("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def _pow(call):
    root = {0.5: "sqrt", -0.5: "rsqrt"}.get(call["exponent"])  # of -inf a power of one half is inf, and a root NaN
    if root:
        return call.emit(root, call.value("self", call.real()))
    return call.emit("pow", call.value("self", call.real()), call.value("exponent", call.real()))


@_row("log10")
def _log10(call):
    return call.emit("mul", call.emit("log2", call.value("self", call.real())), math.log10(2))


@_row("tan")
def _tan(call):
    value = call.value("self", call.real())
    return call.emit("div", call.emit("sin", value), call.emit("cos", value))


# ---- truth values


def _comparison(function):
    def row(call):
        kind = call.promoted("self", "other")
        made = call.emit(function, call.value("self", kind, True), call.value("other", kind, True))
        if kind not in FLOATS and made.standing != EQUAL:
            raise Unfit(INEXACT)
        return made

    return row


for _one in ("eq", "ne", "lt", "le", "gt", "ge"):
    _row(f"{_one}.Tensor", f"{_one}.Scalar")(_comparison(_one))


def _test(function):
    return lambda call: call.emit(function, call.value("self", exact=True))


for _one in ("isnan", "isinf", "logical_not"):
    _row(_one)(_test(_one))


for _one, _number in (("isposinf", math.inf), ("isneginf", -math.inf)):
    _row(_one)(lambda call, _number=_number: call.emit("eq", call.value("self", exact=True), _number))


def _logic(function, of_bits):
    def row(call):
        if of_bits and call.made is not torch.bool:
            raise Unfit(f"its result is {_name(call.made)}")
        kinds = [torch.bool if call.tensor(name) is None else None for name in ("self", "other")]
        return call.emit(function, call.value("self", kinds[0], True), call.value("other", kinds[1], True))

    return row


for _one in ("and", "or", "xor"):
    _row(f"logical_{_one}")(_logic(f"logical_{_one}", False))
    for _prefix, _suffix in (("bitwise_", ""), ("__", "__")):
        _names = [f"{_prefix}{_one}{_suffix}.{_overload}" for _overload in ("Tensor", "Scalar", "Scalar_Tensor")]
        _row(*_names)(_logic(f"logical_{_one}", True))


@_row("bitwise_not")
def _bitwise_not(call):
    if call.made is not torch.bool:
        raise Unfit(f"its result is {_name(call.made)}")
    return call.emit("logical_not", call.value("self"))


def _chosen(call, condition, first, second):
    """`first` and `second`: names of arguments."""
    if call.tensor(condition).dtype is not torch.bool:
        raise Unfit(f"its condition is {_name(call.tensor(condition).dtype)}")
    kind = call.made if call.made is torch.bool else call.real()
    value = call.emit("where", call.value(condition), call.value(first, kind), call.value(second, kind))
    return call.writer.cast(value, torch.bool) if kind is torch.bool else value


@_row("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(call):
    return _chosen(call, "condition", "self", "other")


@_row("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(call):
    return _chosen(call, "mask", "value", "self")


# ---- bounds and activations


def _clamp_of(low, high):
    def row(call):
        kind = call.real()
        value, given = call.value("self", kind), call.given
        if low in given and given[low] is not None:
            value = call.emit("maximum", value, call.value(low, kind))
        if high in given and given[high] is not None:
            value = call.emit("minimum", value, call.value(high, kind))
        return value

    return row


def _clamp(call):
    kind = call.real()
    if call["min"] is None or call["max"] is None:
        return _clamp_of("min", "max")(call)
    return call.emit("clamp", *(call.value(name, kind) for name in ("self", "min", "max")))


_row("clamp", "clamp.Tensor")(_clamp)
_row("clamp_min", "clamp_min.Tensor")(_clamp_of("min", ""))
_row("clamp_max", "clamp_max.Tensor")(_clamp_of("", "max"))


def _activation(function, *parameters, opmath=True):
    def row(call):
        kind = call.real()
        return call.emit(function, call.value("self", kind), *(call.value(p, kind, opmath=opmath) for p in parameters))

    return row


_row("hardtanh")(_activation("hardtanh", "min_val", "max_val", opmath=False))
_row("leaky_relu")(_activation("leaky_relu", "negative_slope"))
_row("celu")(_activation("celu", "alpha"))
_row("softplus")(_activation("softplus", "beta", "threshold"))


@_row("threshold")
def _threshold(call):
    kind = call.real()
    bounds = call.value("threshold", kind, opmath=True), call.value("value", kind)
    return call.emit("threshold", call.value("self", kind, exact=True), *bounds)


@_row("elu")
def _elu(call):
    value = call.value("self", call.real())
    alpha, scale, input_scale = call["alpha"], call["scale"], call["input_scale"]
    if any(isinstance(one, Node) for one in (alpha, scale, input_scale)):
        raise Unfit("its alpha or scale is no constant")
    if scale == 1 and input_scale == 1:
        return call.emit("elu", value, alpha)
    low = call.emit("mul", call.emit("expm1", call.emit("mul", value, input_scale)), alpha * scale)
    return call.emit("where", call.emit("gt", value, 0), call.emit("mul", value, scale), low)


@_row("gelu")
def _gelu(call):
    function = {"none": "gelu", "tanh": "gelu_tanh"}[call["approximate"]]
    return call.emit(function, call.value("self", call.real()))


@_row("log_sigmoid_forward")
def _log_sigmoid(call):
    value = call.value("self", call.real())
    # What the CPU's gradient takes; elsewhere it is empty, and nothing uses it.
    buffer = call.emit("exp", call.emit("neg", call.emit("abs", value))) if call.is_used(1) else None
    return call.emit("logsigmoid", value), buffer


@_row("_prelu_kernel")
def _prelu(call):
    value = call.value("self", call.real())
    scaled = call.emit("mul", value, call.value("weight", call.real()))
    return call.emit("where", call.emit("gt", value, 0), value, scaled)


# ---- reductions


def _axes(call, name="dim"):
    """A chain's words for the dimensions; PyTorch reduces over all where none are named."""
    dim = call.given.get(name)
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return {}
    return {"axis": tuple(dim) if isinstance(dim, (list, tuple)) else dim}


def _keepdim(call):
    return bool(call.given.get("keepdim", False))


def _reduction(function):
    """PyTorch converts to `dtype` before it reduces."""
    return lambda call: call.emit(function, call.value("self", call.real()), **_axes(call), keepdim=_keepdim(call))


_row("sum", "sum.dim_IntList")(_reduction("sum"))
_row("mean", "mean.dim")(_reduction("mean"))
_row("prod", "prod.dim_int")(_reduction("prod"))
_row("logsumexp")(_reduction("logsumexp"))


@_row("count_nonzero", "count_nonzero.dim_IntList")
def _count_nonzero(call):
    found = call.emit("ne", call.value("self", exact=True), 0)
    found.shape = call.writer.shape_of(call.tensor("self"))
    return call.emit("sum", found, **_axes(call))


def position(call, name):
    """Of the extreme along a dimension, the first of equals, in the elements' own type to the bit."""
    value, dim = call.value("self", exact=True), call.given.get("dim")
    if call.tensor("self").dtype not in FLOATS and value.standing != EQUAL:
        raise Unfit(INEXACT)
    rank = call.tensor("self").dim()
    if rank == 0:
        raise Unfit("a position in a single element")
    if dim is None:
        if _keepdim(call):
            raise Unfit("a position among all elements that keeps their dimensions")
        value, dim = (call.emit("flatten", value, 0, rank - 1) if rank > 1 else value), 0
    made, extent = call.emit(name, value, dim, keepdim=_keepdim(call)), call.tensor("self").shape
    count = extent.numel() if call.given.get("dim") is None else extent[call["dim"]]
    made.high = min(made.high, max(count - 1, 0)) if type(count) is int else made.high
    return made


def _extreme(function, pair):
    def row(call):
        kind = call.made if call.made is torch.bool else call.real()
        value = call.emit(function, call.value("self", kind), **_axes(call), keepdim=_keepdim(call))
        value = call.writer.cast(value, torch.bool) if kind is torch.bool else value
        if not pair:
            return value
        return value, position(call, f"arg{function[1:]}") if call.is_used(1) else None

    return row


for _one, _short in (("amax", "max"), ("amin", "min")):
    _row(_one, _short)(_extreme(_one, pair=False))
    _row(f"{_short}.dim")(_extreme(_one, pair=True))


def _quantifier(function):
    def row(call):
        if call.made is not torch.bool:
            raise Unfit(f"its result is {_name(call.made)}")
        dim = call.given.get("dim")
        if isinstance(dim, (list, tuple)) and not dim:
            raise Unfit("it names no dimensions")
        return call.emit(function, call.value("self", exact=True), **_axes(call), keepdim=_keepdim(call))

    return row


for _one in ("any", "all"):
    _row(_one, f"{_one}.dim", f"{_one}.dims")(_quantifier(_one))


@_row("var.correction")
def _var(call):
    correction = 1 if call["correction"] is None else call["correction"]
    value = call.value("self", call.real())
    return call.emit("var", value, **_axes(call), correction=correction, keepdim=_keepdim(call))


@_row("var_mean.correction")
def _var_mean(call):
    mean = call.emit("mean", call.value("self", call.real()), **_axes(call), keepdim=_keepdim(call))
    return _var(call), mean


@_row("linalg_vector_norm")
def _norm(call):
    if isinstance(call["ord"], Node):
        raise Unfit("its order is no constant")
    return call.emit("norm", call.value("self", call.real()), p=call["ord"], **_axes(call), keepdim=_keepdim(call))


for _one in ("softmax", "log_softmax"):
    _row(f"_{_one}")(
        lambda call, _one=_one: call.emit(_one, call.value("self", call.real(), opmath=True), axis=call["dim"])
    )


# ---- normalisation: weights of other types than the input's are taken as they are


def _weights(call, *names):
    return [None if call[name] is None else call.value(name) for name in names]


def _last(call):
    return tuple(range(-len(call["normalized_shape"]), 0))


@_row("native_layer_norm")
def _layer_norm(call):
    value = call.value("input", call.real())
    made = call.emit("layer_norm", value, *_weights(call, "weight", "bias"), eps=call["eps"], axis=_last(call))
    axes = {"axis": _last(call), "keepdim": True}
    mean = call.emit("mean", value, **axes) if call.is_used(1) else None
    return made, mean, _deviation(call, call.emit("var", value, correction=0, **axes)) if call.is_used(2) else None


def _deviation(call, variance):
    """One over the standard deviation, as norms have it and their gradients want it."""
    return call.emit("rsqrt", call.emit("add", variance, call["eps"]))


@_row("_fused_rms_norm")
def _rms_norm(call):
    value, eps = call.value("input", call.real()), call["eps"]
    # As PyTorch: the epsilon of the type in which it computes.
    eps = torch.finfo(torch.float64 if call.made is torch.float64 else torch.float32).eps if eps is None else eps
    made = call.emit("rms_norm", value, *_weights(call, "weight"), eps=eps, axis=_last(call))
    if not call.is_used(1):
        return made, None
    square = call.emit("mean", call.emit("mul", value, value), axis=_last(call), keepdim=True)
    return made, call.emit("rsqrt", call.emit("add", square, eps))


@_row("native_group_norm")
def _group_norm(call):
    shape = call.tensor("input").shape
    told = [one.meta["val"] if isinstance(one, Node) else one for one in (call["N"], call["C"], call["HxW"])]
    if [hint(one) for one in told] != [hint(shape[0]), hint(shape[1]), hint(math.prod(shape[2:]))]:
        raise Unfit("its N, C and HxW are not those of its input")
    value = call.value("input", call.real())
    made = call.emit("group_norm", value, call["group"], *_weights(call, "weight", "bias"), eps=call["eps"])
    groups = call.emit("unflatten", value, 1, (call["group"], -1))
    axes = {"axis": (2, ...), "keepdim": True}

    def by_group(statistic):
        return call.emit("flatten", statistic, 1, len(shape))

    mean = by_group(call.emit("mean", groups, **axes)) if call.is_used(1) else None
    variance = call.emit("var", groups, correction=0, **axes) if call.is_used(2) else None
    return made, mean, None if variance is None else by_group(_deviation(call, variance))


@_row("_native_batch_norm_legit_no_training")
def _batch_norm(call):
    value = call.value("input", call.real())

    def channels(vector):
        return call.emit("along", vector, value, 1)

    weight, bias, mean, variance = _weights(call, "weight", "bias", "running_mean", "running_var")
    scale = channels(_deviation(call, variance))
    made = call.emit("mul", call.emit("sub", value, channels(mean)), scale)
    made = made if weight is None else call.emit("mul", made, channels(weight))
    return (made if bias is None else call.emit("add", made, channels(bias))), None, None
