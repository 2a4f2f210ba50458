"""What is known of the values of a fused function: their types as PyTorch or NumPy have them, their ranges, and whether
a chain, which computes in f32, holds integers exactly. Used by _proxy.py and the tables of rows."""

from __future__ import annotations

import math

from . import _ops
from ._arrays import NAMES
from ._ops import Unsupported, Value

_INF = math.inf
EXACT = 2**24  # the integers that f32 holds

# How a value stands to the integer that eager execution has. A float is always EQUAL to itself.
EQUAL, NEAREST, UNKNOWN = 2, 1, 0

LIMITS = {
    "bool": (0, 1),
    "i8": (-128, 127),
    "u8": (0, 255),
    "i16": (-(2**15), 2**15 - 1),
    "u16": (0, 2**16 - 1),
    "u32": (0, 2**32 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
}
# Small floats hold these; PyTorch and ml_dtypes make something else of the rest than a chain does.
_BOUNDS = {"f8e4m3": (-448, 448), "f8e5m2": (-57344, 57344), "f8e8m0": (2.0**-127, 2.0**127)}


class Known(Value):
    """A value of a chain. `kind` is bool, int or float, `dtype` our name of its type (None for a number of Python and
    for types that are not ours), `like` a stand-in of each library, `roots` the run-time scalars that a number is made
    of; `low`, `high`, `whole`, `standing` bound its elements, NaN apart. `narrowed`: it is computed of integers that
    f32 does not hold."""

    __slots__ = ("kind", "dtype", "_shape", "like", "roots", "low", "high", "whole", "standing", "truth", "narrowed")

    def __init__(self, name, *facts):
        super().__init__(name)
        self.say(*facts)

    def say(self, low=-_INF, high=_INF, whole=False, standing=EQUAL, truth=False, narrowed=False):
        """What is known, and nothing else."""
        self.kind, self.dtype, self._shape, self.like, self.roots = None, None, None, {}, frozenset()
        self.low, self.high, self.whole, self.standing, self.truth = low, high, whole, standing, truth
        self.narrowed = narrowed

    @property
    def shape(self):
        """A tuple, None where nobody knows. It may have been given as a function, for whom it is expensive to know."""
        if callable(self._shape):
            self._shape = self._shape()
        return self._shape

    @shape.setter
    def shape(self, shape):
        self._shape = shape

    @property
    def is_number(self):
        return "number" in self.like

    def again(self):
        """The same value of the chain, of which something else may be said."""
        return Known(self.name, self.low, self.high, self.whole, self.standing, self.truth, self.narrowed)


def facts_of_type(dtype):
    """What is known of a tensor's elements, for Known, from our name of its type."""
    low, high = LIMITS.get(dtype, (-_INF, _INF))
    return low, high, dtype in LIMITS, NEAREST if dtype in ("i32", "u32", "i64") else EQUAL, dtype == "bool"


def constant(number):
    """Its range and standing."""
    whole = math.isinf(number) is False and float(number).is_integer() if number == number else False
    standing = EQUAL if not whole or abs(number) <= EXACT else NEAREST
    return (-_INF, _INF, False, EQUAL) if number != number else (number, number, whole, standing)


def _facts(argument):
    if isinstance(argument, Known):
        return argument.low, argument.high, argument.whole, argument.standing
    if isinstance(argument, (bool, int, float)):
        return constant(argument)
    return -_INF, _INF, False, UNKNOWN


def kind_of(argument):
    """bool, int or float, of a value or a number."""
    if isinstance(argument, Known):
        return argument.kind
    return "bool" if isinstance(argument, bool) else "int" if isinstance(argument, int) else "float"


# ---- ranges of results, from [(low, high)] of the arguments


def _corners(function):
    def bounds(a, b):
        if not all(map(math.isfinite, (*a, *b))):
            return -_INF, _INF
        values = [function(one, other) for one in a for other in b]
        return min(values), max(values)

    return bounds


def _maximum(a, b):
    return max(a[0], b[0]), max(a[1], b[1])


def _minimum(a, b):
    return min(a[0], b[0]), min(a[1], b[1])


def _magnitude(a):
    return (0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))), max(abs(a[0]), abs(a[1]))


def _union(_, a, b):
    return min(a[0], b[0]), max(a[1], b[1])


def _same(a, *_):
    return a


def _hull(*ranges):
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _or_zero(a, *_):
    return min(a[0], 0), max(a[1], 0)


# Exact among integers, as long as they stay below 2**24.
_CLOSED = {
    "add": _corners(lambda a, b: a + b),
    "sub": _corners(lambda a, b: a - b),
    "mul": _corners(lambda a, b: a * b),
    "neg": lambda a: (-a[1], -a[0]),
    "abs": _magnitude,
    "square": lambda a: tuple(one * one for one in _magnitude(a)),
    "sign": lambda a: (-1, 1),
}
# What commutes with rounding: of the nearest f32 of an integer it gives the nearest f32 of its result.
_MONOTONE = {
    "maximum": _maximum,
    "minimum": _minimum,
    "clamp": lambda a, low, high: _minimum(_maximum(a, low), high),
    "relu": lambda a: _maximum(a, (0, 0)),
    "relu6": lambda a: _minimum(_maximum(a, (0, 0)), (6, 6)),
    "where": _union,
    "amax": _same,
    "amin": _same,
    "unflatten": _same,
    "flatten": _same,
    "along": _same,
    "view": _same,
    "cat": _hull,
    "pad": _hull,
    "roll": _same,
    **{f"{name}{n}d": _same for name in ("max_pool", "adaptive_max_pool", "upsample_nearest") for n in (1, 2, 3)},
    "pixel_shuffle": _same,
    "pixel_unshuffle": _same,
    "tril": _or_zero,
    "triu": _or_zero,
}
_OF_FIRST = set(_MONOTONE) - {"maximum", "minimum", "clamp", "relu", "relu6", "where", "cat", "pad"}
_ROUNDING = {
    name: lambda a, f=f: tuple(f(one) if math.isfinite(one) else one for one in a)
    for name, f in {"floor": math.floor, "ceil": math.ceil, "round": round, "trunc": math.trunc}.items()
}
_BOUNDED = {"sigmoid": (0, 1), "tanh": (-1, 1), "hardsigmoid": (0, 1), "erf": (-1, 1), "sin": (-1, 1), "cos": (-1, 1)}
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_MOVES = {"view", "cat", "roll", "flatten", "unflatten"}  # what they give are their operands' elements
_TABLES = {"take": 0, "index_select": 0, "gather": 0, "embedding": 1}  # which argument they give elements of
_POSITIONS = {"argmax", "argmin", "iota"}  # of a dimension that has at most EXACT elements
_TRUTHS = {"logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "any", "all"}


def _remainder_range(by):
    return (0, by[0] - 1) if by[0] > 0 else (by[0] + 1, 0)


class KnownChain(_ops.Chain):
    """Writes the text of a chain, and what follows for each value. `is_wide`: an operand is f64, so that all is
    computed in it. `is_symbolic`: extents of fake tensors are symbols, of which rows know an example."""

    is_wide = is_symbolic = False

    def emit(self, function, *args, **kwargs):
        made = super().emit(function, *args, **kwargs)
        if function == "cat":
            args = tuple(args[0])
        elif function == "pad":
            args = args[0], kwargs["value"]
        elif function in _TABLES:
            args = (args[_TABLES[function]],)
        return self._known(made, function, args)

    def view(self, text, value):
        """`text` says which view, with `{}` for the value."""
        return self._known(self.write(text.format(value.name)), "view", (value,))

    def _known(self, value, function, args):
        made = Known(value.name, *self._derive(function, args))
        made.narrowed = function != "cast" and any(
            one.narrowed or (one.whole and one.standing == NEAREST and not one.is_number)
            for one in args
            if isinstance(one, Known)
        )
        return made

    def _derive(self, function, args):
        facts = [_facts(one) for one in args if not isinstance(one, (tuple, list)) and one is not None]
        ranges = [(low, high) for low, high, _, _ in facts]
        whole, standing = all(one[2] for one in facts), min((one[3] for one in facts), default=EQUAL)
        if function in _TRUTHS:
            return 0, 1, True, EQUAL, True
        if function in _POSITIONS:
            return 0, EXACT, True, EQUAL
        if function == "one_hot":
            return 0, 1, True, EQUAL
        if function in _TABLES:
            return *facts[0], args[0].truth
        if function in _COMPARISONS:
            return 0, 1, True, _compared(facts), True
        if function == "cast":
            return _cast(facts[0], args[1].name)
        if function in _MONOTONE:
            if function == "where":
                facts = facts[1:]
                whole, standing = all(one[2] for one in facts), min(one[3] for one in facts)
            elif function in _OF_FIRST:
                whole, standing = facts[0][2:]
            low, high = _MONOTONE[function](*ranges)
            if function in _MOVES:
                truth = all(one.truth for one in args[: None if function == "cat" else 1])
                return low, high, whole, standing, truth
            if whole and standing == NEAREST and function != "where" and _holds(low, high):
                standing = EQUAL  # what was rounded lies beyond, and became a bound
            return low, high, whole, standing
        if function in _ROUNDING:
            low, high = _ROUNDING[function](*ranges[:1])
            return low, high, True, standing if whole else EQUAL if _holds(low, high) else NEAREST
        if function in _BOUNDED:
            return *_BOUNDED[function], False, UNKNOWN
        if function == "remainder" and whole and ranges[1][0] == ranges[1][1] != 0:
            return *_remainder_range(ranges[1]), True, standing if standing == EQUAL else UNKNOWN
        if function == "sum":
            low, high = -_INF, _INF
            bounded = facts[0][2] and all(map(math.isfinite, ranges[0])) and not self.is_symbolic
            if bounded and getattr(args[0], "shape", None) is not None:
                count = math.prod(args[0].shape)
                low, high = min(0, ranges[0][0]) * count, max(0, ranges[0][1]) * count
            return low, high, facts[0][2], EQUAL if facts[0][3] == EQUAL and _holds(low, high) else UNKNOWN
        if function in _CLOSED:
            low, high = _CLOSED[function](*ranges)
            return low, high, whole, EQUAL if standing == EQUAL and _holds(low, high) else UNKNOWN
        return -_INF, _INF, False, UNKNOWN


def _holds(low, high):
    return -EXACT <= low and high <= EXACT


def _compared(facts):
    """A comparison is right among values that are equal to what they stand for, and of one that is rounded with those
    that no rounding crosses."""
    if all(one[3] == EQUAL for one in facts):
        return EQUAL
    rounded = [one for one in facts if one[3] != EQUAL]
    others = [one for one in facts if one[3] == EQUAL]
    right = len(rounded) == 1 and rounded[0][3] == NEAREST and all(-EXACT < a and b < EXACT for a, b, _, _ in others)
    return EQUAL if right else UNKNOWN


_DIGITS = {"f16": 11, "bf16": 8, "f8e4m3": 4, "f8e5m2": 3, "f8e8m0": 1}  # binary ones of a number


def _is_held(number, dtype):
    """Whether a small type has the number, or it is no bound: then rounding takes nothing across it."""
    if math.isinf(number):
        return True
    least, most = _BOUNDS.get(dtype, (-65504, 65504))
    if not least <= number <= most or 0 < abs(number) < 2**-6:
        return False
    return (math.frexp(number)[0] * 2 ** _DIGITS[dtype]).is_integer()


def _cast(fact, dtype):
    low, high, whole, standing = fact
    if dtype == "bool":
        return 0, 1, True, EQUAL, True
    if dtype in LIMITS:
        least, most = LIMITS[dtype]
        low, high = max(low, least), min(high, most)
        return low, high, True, standing if whole else EQUAL if _holds(low, high) else NEAREST
    kept = dtype in ("f32", "f64") or all(_is_held(one, dtype) for one in (low, high))
    return (low, high, False, EQUAL) if kept else (-_INF, _INF, False, EQUAL)


# ---- what rows check


def settle(c, value, like, shape, name, limits, kind, dtype):
    """The result of an operation as a value of the type that PyTorch or NumPy gives it; Unsupported where the chain's
    value may be another. `limits`: of that type, if it holds integers."""
    if not isinstance(value, Known):
        raise Unsupported(f"'{name}' gives a number and no tensor")
    made = value.again()
    if kind != "float":
        low, high = limits
        if not made.whole or made.standing == UNKNOWN or (kind == "bool" and made.standing != EQUAL):
            raise Unsupported(
                f"'{name}' of integers: a kernel computes in f32, which holds integers up to 2**24; convert the "
                "operands to float32 first, if that is meant"
            )
        if made.low < low or made.high > high:
            raise Unsupported(
                f"'{name}' of integers: its results need not fit into the type that they have outside of a kernel, "
                "and wrap around there; convert the operands to float32 first, if that is meant"
            )
        if kind == "bool" and not made.truth:
            made = c.emit("cast", made, Value("bool"))
    elif made.narrowed and dtype == "f64" and not c.is_wide:
        raise Unsupported(
            f"'{name}' of int32 or int64: its result is float64, and a kernel computes in f32; convert the operands "
            "with astype(np.float32), if that is meant, or to float64"
        )
    else:
        made.standing, made.narrowed = EQUAL, False
    made.kind, made.dtype, made.shape, made.like = kind, dtype, shape, like
    return made


def is_within(value, dtype):
    """Whether all that a value may be are numbers between the bounds of a type of integers or of a small type."""
    least, most = LIMITS[dtype] if dtype in LIMITS else _BOUNDS[dtype]
    return least <= value.low and value.high <= most


def fitting(c, value, dtype, name):
    """The integers that a conversion to a type of integers gives: it truncates, and what does not fit is undefined in
    PyTorch and NumPy and saturates in a chain, so that it must be known to fit."""
    _, _, whole, standing = _facts(value)
    if not whole:
        value = c.emit("trunc", value)
    least, most = LIMITS[dtype]
    if not is_within(value, dtype) or (standing == UNKNOWN and whole):
        raise Unsupported(
            f"'{name}' to {NAMES[dtype]}: a value beyond the type wraps around or is undefined outside of a "
            f"kernel, and saturates in one; clamp it to [{least}, {most}] before, or use fuse(dtype={dtype!r})"
        )
    return value


def convert(c, value, dtype, name):
    """A value as `dtype` (our name), as a conversion of PyTorch and NumPy gives it."""
    low, high, *_ = _facts(value)
    if dtype in LIMITS and dtype != "bool":
        value = fitting(c, value, dtype, name)
    elif dtype in _BOUNDS and not (_BOUNDS[dtype][0] <= low and high <= _BOUNDS[dtype][1]):
        least, most = _BOUNDS[dtype]
        raise Unsupported(
            f"'{name}' to {NAMES[dtype]}: a value beyond the type is another one in a kernel than outside of it; "
            f"clamp it to [{least:g}, {most:g}] before, or use fuse(dtype={dtype!r})"
        )
    return c.emit("cast", value, Value(dtype))
