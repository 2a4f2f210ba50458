"""NumPy's functions over @epifuse.fuse: every ufunc, every function that takes arrays, every method and every operator,
with arguments drawn from their signatures, against NumPy.
python python/tests/support/numpy_functions.py tests/reports/numpy-fuse.json makes 40 draws of each."""

import argparse
import inspect
import json
import operator
import random
import sys
import time
import warnings

import numpy as np
from agreement import Report, attempt

from epifuse._arrays import dtype_name

TYPES = [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64]
SHAPES = [(4, 3), (3,), (1, 3), (2, 4, 3), (4, 1), (), (0, 3)]
OPERATORS = (
    "add sub mul truediv floordiv mod pow and_ or_ xor eq ne lt le gt ge neg pos abs invert matmul lshift rshift iadd "
    "isub imul ipow iand"
).split()
# By the name of a parameter: what it may be given.
POOL = {
    "axis": [None, 0, 1, -1, (0, 1), (), 5],
    "dtype": [None, np.float64, np.float32, np.int64, "float16", bool],
    "keepdims": [True, False],
    "ddof": [0, 1, 2],
    "correction": [0, 1],
    "ord": [None, 1, 2, np.inf, -1, 0, "fro", "nuc", 3],
    "decimals": [0, 1, -1],
    "min": [None, -1, 0.5],
    "max": [None, 1, 2.5],
    "a_min": [None, -1, 0.5],
    "a_max": [None, 1, 2.5],
    "initial": [0, 1.5],
    "order": ["C", "K"],
    "copy": [True, False],
    "casting": ["unsafe", "same_kind"],
    "subok": [True, False],
    "n": [1, 2],
    "out": [None, "array"],
    "where": [True, "mask"],
}
SCALARS = [0, 1, -2, 3, 0.5, -1.5, True, np.float64(0.25), np.float32(2), np.int64(2), np.int8(1), float("inf"), 300]


def to_numpy(value):
    value = np.asarray(value)
    if value.dtype.kind not in "biuf":
        raise TypeError(f"a result of the type {value.dtype}")
    exact = value.dtype.kind != "f"
    try:
        return value.astype(np.float64), dtype_name(value.dtype), exact
    except ValueError:
        return value.astype(np.float64), "other" if exact else "f64", exact


def functions():
    """(name, callable, names of its parameters, how many arrays it may take)."""
    found = []
    for name in dir(np):
        value = getattr(np, name)
        if isinstance(value, np.ufunc):
            found.append((f"numpy.{name}", value, ["out", "where", "dtype", "casting", "order"], value.nin))
    for prefix, home in (("numpy", np), ("numpy.linalg", np.linalg)):
        for name in dir(home):
            value = getattr(home, name)
            if not name.startswith("_") and hasattr(value, "_implementation") or name in ("fix", "isposinf"):
                found.append((f"{prefix}.{name}", value, parameters(value), None))
    for name in dir(np.ndarray):
        if name.startswith("_") or not callable(getattr(np.ndarray, name)):
            continue
        own = getattr(np, name, None)
        names = parameters(own) if callable(own) and not isinstance(own, type) else ["axis", "dtype", "copy"]
        found.append((f"ndarray.{name}", lambda x, *args, _n=name, **more: getattr(x, _n)(*args, **more), names, None))
    for name in OPERATORS:
        arity = 1 if name in ("neg", "pos", "abs", "invert") else 2
        found.append((f"operator.{name}", getattr(operator, name), [], arity))
    return found


def parameters(function):
    try:
        return list(inspect.signature(function).parameters)[1:]
    except (TypeError, ValueError):
        return []


def array(generator, shape=None, dtype=None):
    dtype = dtype or generator.choice(TYPES)
    shape = generator.choice(SHAPES) if shape is None else shape
    source = np.random.default_rng(generator.getrandbits(32))
    if dtype is np.bool_:
        return source.random(shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        far = generator.random() < 0.15
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if far else (0 if dtype is np.uint8 else -4, 5)
        return np.asarray(source.integers(low, high, size=shape, dtype=dtype))
    values = np.asarray((source.normal(size=shape) * 2).astype(dtype))
    if values.size > 2 and generator.random() < 0.2:
        values.reshape(-1)[:2] = [np.nan, np.inf]
    return values


def draw(generator, name, names, arity):
    """Arguments: (a list by position, a dictionary by name)."""
    count = arity if arity is not None else generator.choice([1, 1, 1, 2, 3])
    first = array(generator)
    alike = generator.random() < 0.7
    args = [first]
    for _ in range(count - 1):
        if generator.random() < 0.4:
            args.append(generator.choice(SCALARS))
        else:
            args.append(array(generator, dtype=first.dtype.type if alike else None))
    if arity == 2 and generator.random() < 0.2:
        args.reverse()
    known = [one for one in names if one in POOL]
    named = {}
    if known and generator.random() < 0.7:
        for one in generator.sample(known, generator.choice([1, 1, 2, min(3, len(known))]) if len(known) > 1 else 1):
            named[one] = generator.choice(POOL[one])
    if arity is None and count == 1 and generator.random() < 0.4 and known == names[: len(known)]:
        upto = generator.randint(1, max(1, len(known)))  # by position
        args += [generator.choice(POOL[one]) for one in known[:upto]]
        named = {}
    if named.get("out") == "array":
        named["out"] = array(generator, first.shape)
    if named.get("where") == "mask":
        named["where"] = array(generator, first.shape, np.bool_)
    return args, named


def try_call(report, name, call, args, named, at_run_time):
    leaves = [*args, *named.values()]

    def is_given(value):
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_, np.ndarray))
        return isinstance(value, np.ndarray) or (at_run_time and number)

    places = [i for i, value in enumerate(leaves) if is_given(value)]
    if not any(isinstance(leaves[i], np.ndarray) for i in places):
        return

    def function(*given):
        again = list(leaves)
        for place, value in zip(places, given):
            again[place] = value
        return call(*again[: len(args)], **dict(zip(named, again[len(args) :])))

    given = [leaves[i] for i in places]
    outcome, text = attempt(
        function,
        lambda: function(*(one.copy() if isinstance(one, np.ndarray) else one for one in given)),
        given,
        to_numpy,
        lambda: function(*(one.astype(np.float64) if getattr(one, "dtype", 0) == np.float16 else one for one in given)),
    )
    report.enter(name, outcome, text, lambda: describe(args, named, at_run_time))


def describe(args, named, at_run_time):
    def shown(value):
        return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)

    parts = [shown(one) for one in args] + [f"{key}={shown(one)}" for key, one in named.items()]
    return f"({', '.join(parts)}){' numbers at run time' if at_run_time else ''}"


def run(seed=0, draws=40, only=None):
    report, generator = Report(), random.Random(seed)
    for name, call, names, arity in functions():
        if only is not None and name != only:
            continue
        for _ in range(draws):
            args, named = draw(generator, name, names, arity)
            try_call(report, name, call, args, named, at_run_time=generator.random() < 0.3)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", nargs="?", help="a JSON file for the counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=40, help="of each function")
    parser.add_argument("--only", help="one function")
    parser.add_argument("--errors", action="store_true", help="also what NumPy computes and EpiFuse has an error for")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.monotonic()
    report = run(options.seed, options.draws, options.only)
    found = {
        "command": "python python/tests/support/numpy_functions.py tests/reports/numpy-fuse.json",
        "numpy": np.__version__,
        "seed": options.seed,
        "draws": options.draws,
        "compared": "types of results (but float64, where no operand is); integers and truth values exactly, "
        "floats within the tolerance of the coarser type, of 16-bit operands also against the same in float64",
        "seconds": round(time.monotonic() - start),
        **report.as_dict(),
    }
    if options.report:
        with open(options.report, "w") as file:
            file.write(json.dumps(found, indent=1) + "\n")
    print("\n".join(report.failures[:200]))
    if options.errors:
        print("\n".join(f"{count} {text}" for text, count in report.why.most_common()))
    print({key: found[key] for key in ("attempts", "right", "untraceable", "error", "wrong", "seconds")})
    sys.exit(bool(report.failures))


if __name__ == "__main__":
    main()
