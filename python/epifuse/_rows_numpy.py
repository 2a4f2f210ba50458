"""NumPy's functions and methods as rows: of `numpy`, numpy.linalg and arrays (ndarray). CuPy's and JAX's arrays have
NumPy's meanings. Used by _proxy.py."""

from __future__ import annotations

import math

from ._exact import convert, kind_of
from ._ops import Unsupported, Value
from ._rows import Const, Table
from ._rows_torch import are_truth, bits, check_divisor, floor_divide, our_dtype
from ._rows_torch_products import product
from ._rows_torch_shapes import axes_of, matrix_or_vector, vector_norm
from ._rows_torch_views import counted, joined, listed, position, stacked, triangle
from ._views import index_text

TABLE = Table()
_row = TABLE.add


def _numpy(*names):
    return _row(*(f"numpy.{name}" for name in " ".join(names).split()))


# ---- ufuncs. Their keywords (out, where, dtype, casting, ...) no row knows.


def _unary(operation):
    def row(c, x, /):
        return c.emit(operation, x)

    return row


def _binary(operation):
    def row(c, x1, x2, /):
        return c.emit(operation, x1, x2)

    return row


@_numpy("matmul")
def _matmul(c, x1, x2, /):
    return product(c, "matmul", x1, x2)


for _name, _operation in {
    "abs absolute": "abs",
    "fabs": "abs",
    "negative": "neg",
    "rint": "round",
    **{
        name: name
        for name in (
            "sqrt reciprocal square floor ceil trunc exp exp2 expm1 log log1p log2 sin cos tanh isnan isinf logical_not"
        ).split()
    },
}.items():
    _numpy(_name)(_unary(_operation))
for _name in "maximum minimum logical_and logical_or logical_xor".split():
    _numpy(_name)(_binary(_name))


@_numpy("fix")
def _fix(c, x):
    return c.emit("trunc", x)


@_numpy("isfinite")
def _isfinite(c, x, /):
    return c.emit("lt", c.emit("abs", x), math.inf) if kind_of(x) == "float" else c.emit("eq", x, x)


@_numpy("sign")
def _sign(c, x, /):
    sign = c.emit("sign", x)  # which is 0 of NaN, where NumPy's is NaN
    return c.emit("where", c.emit("isnan", x), x, sign) if kind_of(x) == "float" else sign


@_numpy("positive")
def _positive(c, x, /):
    return x


@_numpy("log10")
def _log10(c, x, /):
    return c.emit("mul", c.emit("log2", x), math.log10(2))


@_numpy("tan")
def _tan(c, x, /):
    return c.emit("div", c.emit("sin", x), c.emit("cos", x))


@_numpy("add")
def _add(c, x1, x2, /):
    return c.emit("logical_or" if are_truth(x1, x2) else "add", x1, x2)


@_numpy("subtract")
def _subtract(c, x1, x2, /):
    return c.emit("sub", x1, x2)


@_numpy("multiply")
def _multiply(c, x1, x2, /):
    return c.emit("logical_and" if are_truth(x1, x2) else "mul", x1, x2)


@_numpy("divide true_divide")
def _divide(c, x1, x2, /):
    return c.emit("div", x1, x2)


@_numpy("floor_divide")
def _floor_divide(c, x1, x2, /):
    return floor_divide(c, x1, x2)


@_numpy("remainder mod")
def _remainder(c, x1, x2, /):
    check_divisor("remainder", x1, x2)
    rest = c.emit("remainder", x1, x2)
    if "float" not in (kind_of(x1), kind_of(x2)):
        return rest
    zero = c.emit("where", c.emit("lt", x2, 0), -0.0, 0.0)  # which has the sign of the divisor in NumPy
    return c.emit("where", c.emit("eq", rest, 0), zero, rest)


@_numpy("fmod")
def _fmod(c, x1, x2, /):
    check_divisor("fmod", x1, x2)
    return c.emit("fmod", x1, x2)


@_numpy("power")
def _power(c, x1, x2, /):
    return c.emit("pow", x1, x2)


def _comparison(operation):
    def row(c, x1, x2, /):
        return c.emit(operation, *(_rounded(c, one, other) for one, other in ((x1, x2), (x2, x1))))

    return row


def _rounded(c, value, other):
    """A Python number is compared in the type of the other value."""
    narrow = {"f16", "bf16", "f32"}
    if getattr(other, "dtype", None) not in narrow or getattr(other, "kind", None) != "float":
        return value
    if isinstance(value, Value):
        weak = value.is_number and other.dtype != "f32"
        return c.emit("cast", value, Value(other.dtype)) if weak else value
    from ._arrays import numpy_dtype

    return float(numpy_dtype(other.dtype).type(value)) if abs(value) < math.inf else value


for _name, _operation in {
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
}.items():
    _numpy(_name)(_comparison(_operation))


def _logic(operation):
    def row(c, x1, x2, /):
        return bits(c, f"bitwise_{operation}", operation, x1, x2)

    return row


for _name in ("and", "or", "xor"):
    _numpy(f"bitwise_{_name}")(_logic(_name))


@_numpy("invert bitwise_not bitwise_invert")
def _invert(c, x, /):
    return bits(c, "invert", "not", x)


# ---- functions


@_numpy("where")
def _where(c, condition, x, y, /):
    return c.emit("where", condition, x, y)


@_numpy("clip")
def _clip(c, a, a_min=None, a_max=None):
    return _clamp(c, a, a_min, a_max)


@_row("ndarray.clip")
def _clip_method(c, a, min=None, max=None):
    return _clamp(c, a, min, max)


def _clamp(c, value, low, high):
    value = value if low is None else c.emit("maximum", value, low)
    return value if high is None else c.emit("minimum", value, high)


@_numpy("round around")
@_row("ndarray.round")
def _round(c, a, decimals: Const = 0):
    if decimals != 0:
        raise Unsupported(f"'round' to {decimals} decimals")
    return c.emit("round", a)


@_row("ndarray.astype")
def _astype(c, a, dtype: Const):
    return convert(c, a, our_dtype("astype", dtype), "astype")


@_row("ndarray.copy")
def _copy(c, a):
    return a


# ---- reductions. numpy.sum(a, axis, dtype, out, keepdims): what is not understood stays unnamed.


def _reduced(c, name, a, axis, keepdims, dtype=None, **more):
    if dtype is not None:
        shape, a = a.shape, convert(c, a, our_dtype(name, dtype), name)
        a.shape = shape
    return c.emit(name, a, **axes_of(name, axis, a), keepdim=bool(keepdims), **more)


def _none(name, out):
    if out is not None:
        raise Unsupported(f"'{name}' with out")


def _sum_like(name):
    def row(c, a, axis: Const = None, dtype: Const = None, out=None, keepdims: Const = False):
        _none(name, out)
        return _reduced(c, name, a, axis, keepdims, dtype)

    return row


for _name in ("sum", "mean", "prod"):
    _row(f"numpy.{_name} ndarray.{_name}")(_sum_like(_name))


def _extreme_like(name, operation):
    def row(c, a, axis: Const = None, out=None, keepdims: Const = False):
        _none(name, out)
        return _reduced(c, operation, a, axis, keepdims)

    return row


for _name, _operation in {"max": "amax", "min": "amin", "any": "any", "all": "all"}.items():
    _row(f"numpy.{_name} ndarray.{_name}")(_extreme_like(_name, _operation))
_row("numpy.amax")(_extreme_like("amax", "amax"))
_row("numpy.amin")(_extreme_like("amin", "amin"))


def _moment(name):
    def row(
        c,
        a,
        axis: Const = None,
        dtype: Const = None,
        out=None,
        ddof: Const = 0,
        keepdims: Const = False,
        *,
        correction: Const = None,
    ):
        _none(name, out)
        ddof = ddof if correction is None else correction
        return _reduced(c, name, a, axis, keepdims, dtype, correction=ddof)

    return row


for _name in ("var", "std"):
    _row(f"numpy.{_name} ndarray.{_name}")(_moment(_name))


@_row("numpy.linalg.norm")
def _norm(c, x, ord: Const = None, axis: Const = None, keepdims: Const = False):
    order, count = matrix_or_vector(ord, axis, x)
    if count > 2 or (count == 2 and order not in (None, "fro")) or (count == 1 and order == "fro"):
        raise Unsupported(f"'norm' of {count} dimensions of the order {order!r}")
    return vector_norm(c, x, 2 if order in (None, "fro") else order, axis, keepdims)


@_row("numpy.linalg.vector_norm")
def _vector_norm(c, x, /, *, axis: Const = None, keepdims: Const = False, ord: Const = 2):
    return vector_norm(c, x, ord, axis, keepdims)


# ---- views. NumPy's stand-ins are smaller than arrays: what asks for sizes (reshape, broadcast_to) has no row.


@_row("ndarray.__getitem__")
def _indexed(c, input, key: Const):
    return c.view("{}" + index_text(key), input)


@_numpy("transpose")
def _transpose(c, a, axes: Const = None):
    return _permuted(c, a, axes)


@_row("ndarray.transpose")
def _transpose_method(c, a, *axes: Const):
    return _permuted(c, a, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None)


def _permuted(c, a, axes):
    axes = range(len(a.shape))[::-1] if axes is None else axes
    return c.view(f"permute({{}}, {listed(tuple(axes))})", a) if a.shape else a


@_row("numpy.swapaxes ndarray.swapaxes")
def _swapaxes(c, a, axis1: Const, axis2: Const):
    return c.view(f"transpose({{}}, {axis1}, {axis2})", a)


@_numpy("flip")
def _flip(c, m, axis: Const = None):
    axes = range(len(m.shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return c.view(f"flip({{}}, {listed(tuple(axes))})", m) if axes else m


# ---- joined arrays


@_numpy("concatenate concat")
def _concatenate(c, arrays, /, axis: Const = 0, out=None):
    _none("concatenate", out)
    if axis is None:
        raise Unsupported("'concatenate' of flattened arrays")
    return joined(c, "concatenate", arrays, axis)


@_numpy("stack")
def _stack(c, arrays, axis: Const = 0, out=None):
    _none("stack", out)
    return joined(c, "stack", stacked(c, "stack", arrays, axis), axis)


@_numpy("roll")
def _roll(c, a, shift: Const, axis: Const = None):
    shifts, axes = (list(one) if isinstance(one, (list, tuple)) else [one] for one in (shift, axis))
    if None in axes or len(shifts) != len(axes):
        raise Unsupported("'roll' of all elements as one line")
    return c.emit("roll", a, shifts, axes)


# ---- positions


def _extreme_at(name):
    def row(c, a, axis: Const = None, out=None, *, keepdims: Const = False):
        _none(name, out)
        return position(c, name, a, axis, keepdims)

    return row


for _name in ("argmax", "argmin"):
    _row(f"numpy.{_name} ndarray.{_name}")(_extreme_at(_name))


@_numpy("count_nonzero")
def _count_nonzero(c, a, axis: Const = None, *, keepdims: Const = False):
    return counted(c, a, axis, bool(keepdims))


def _triangle(name):
    def row(c, m, k: Const = 0):
        if len(m.shape) < 2:
            raise Unsupported(f"'{name}' of a vector")
        return triangle(c, name, m, k)

    return row


for _name in ("tril", "triu"):
    _numpy(_name)(_triangle(_name))
