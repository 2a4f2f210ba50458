"""Random functions of a few operations over @epifuse.fuse, in PyTorch and in NumPy: what is known of a value (its type,
its range, whether a chain holds its integers) goes from one operation to the next. Small integers are common, and so
are those that wrap around. python python/tests/support/compositions.py tests/reports/compositions-fuse.json makes 5000 of
each library; test_op_db_fuse.py makes some."""

import argparse
import json
import operator
import random
import sys
import warnings

import numpy as np
from agreement import Report, attempt

BINARY = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_, operator.or_]
BINARY += [operator.lt, operator.ge, operator.eq, operator.ne, operator.xor, operator.truediv]
UNARY = [operator.neg, operator.abs, operator.invert]
CONSTANTS = [0, 1, 2, -1, 3, 7, 0.5, -2.5, 100, 200, 2**25, True]
EXACT = [0, 1, 2, -1, 3, 7, 0.5, -2.5, 100, 200, True]
LIMITS = [(0, 10), (-128, 127), (0, 255), (-1.5, 2.5), (0, 1)]


def named(name):
    def call(value, *args, **kwargs):
        return getattr(value, name)(*args, **kwargs)

    call.__name__ = name
    return call


class Torch:
    def __init__(self):
        import torch

        self.torch = torch
        # None of 16 bits: eager execution rounds to these after each operation, a kernel once.
        self.types = [torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64]
        self.unary = [*UNARY, torch.relu, torch.floor, torch.round, torch.trunc, torch.sign, torch.square, torch.isnan]
        self.unary += [torch.logical_not, torch.isfinite]
        self.unary += [named(one) for one in ("float", "bool")]
        self.unary += [self._integers(one) for one in ("int", "long", "char", "byte")]
        self.operators, self.constants = BINARY, CONSTANTS
        self.binary = [*BINARY, torch.maximum, torch.minimum, torch.logical_and]
        self.reductions = [torch.sum, torch.amax, torch.amin, torch.any, torch.all, torch.prod, torch.mean]

    def _integers(self, name):
        def convert(value):  # of NaN it is undefined
            return getattr(self.torch.where(self.torch.isnan(value), 0, value), name)()

        convert.__name__ = name
        return convert

    def clamp(self, value, low, high):
        return self.torch.clamp(value, low, high)

    def where(self, condition, value, other):
        return self.torch.where(condition, value, other)

    def reduce(self, function, value, axis):
        return function(value) if axis is None else function(value, axis, keepdim=True)

    def array(self, values, dtype):
        return self.torch.from_numpy(values).to(dtype)

    def to_numpy(self, value):
        from op_db import to_numpy

        return to_numpy(value)


class NumPy:
    def __init__(self):
        self.types = [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.float32, np.float64]
        self.unary = [*UNARY, np.floor, np.rint, np.trunc, np.sign, np.square, np.isnan, np.logical_not, np.isfinite]
        self.unary += [self._astype(dtype) for dtype in self.types]
        # NumPy divides integers in float64: rounded to f32, a quotient may lie on the other side of a step.
        self.operators, self.constants = [one for one in BINARY if one is not operator.truediv], EXACT
        self.binary = [*self.operators, np.maximum, np.minimum, np.logical_and]
        self.reductions = [np.sum, np.max, np.min, np.any, np.all]

    @staticmethod
    def _astype(dtype):
        def astype(value):  # of NaN it is undefined
            return (np.where(np.isnan(value), 0, value) if issubclass(dtype, np.integer) else value).astype(dtype)

        return astype

    def clamp(self, value, low, high):
        return np.clip(value, low, high)

    def where(self, condition, value, other):
        return np.where(condition, value, other)

    def reduce(self, function, value, axis):
        return function(value) if axis is None else function(value, axis=axis, keepdims=True)

    def array(self, values, dtype):
        return values.astype(dtype)

    def to_numpy(self, value):
        from numpy_functions import to_numpy

        return to_numpy(value)


def draw(library, generator):
    """A function of two arrays, and what it does in words."""
    steps = []
    for i in range(generator.randint(1, 5)):
        kind = generator.choices(["unary", "binary", "constant", "clamp", "where", "reduce"], [4, 4, 4, 2, 1, 1])[0]
        of, other = (generator.randrange(i + 2) for _ in range(2))
        if generator.random() < 0.6:
            of = i + 1  # the newest
        steps.append((kind, of, other, generator.random()))

    def pick(many, draw):
        return many[int(draw * len(many))]

    def step(values, kind, of, other, draw):
        a, b = values[of], values[other]
        if kind == "unary":
            return pick(library.unary, draw)(a)
        if kind == "binary":
            return pick(library.binary, draw)(a, b)
        if kind == "constant":
            function, number = pick(library.operators, draw), pick(library.constants, draw * 1000 % 1)
            return function(a, number) if draw * 77 % 1 < 0.8 else function(number, a)
        if kind == "clamp":
            return library.clamp(a, *pick(LIMITS, draw))
        if kind == "where":
            return library.where(a > 0, a, b)
        return library.reduce(pick(library.reductions, draw), a, None if draw * 10 % 1 < 0.2 else 1)

    def function(x, y):
        values = [x, y]
        for one in steps:
            values.append(step(values, *one))
        return values[-1]

    def words():
        texts = []
        for kind, of, other, draw in steps:
            many = {"unary": library.unary, "binary": library.binary, "reduce": library.reductions}.get(kind)
            name = getattr(pick(many, draw), "__name__", "?") if many else kind
            texts.append(f"{name}({of}, {other}, {draw!r})")
        return "; ".join(texts)

    return function, words


def array(library, generator, types):
    dtype = generator.choice(types)
    source = np.random.default_rng(generator.getrandbits(32))
    far = generator.random() < 0.2
    values = source.integers(-200 if far else -3, 300 if far else 4, size=(3, 4)).astype(np.float64)
    if generator.random() < 0.4:
        values = values + source.integers(-2, 3, size=(3, 4)) / 4
    if "float" not in str(dtype):
        values = np.trunc(values)
        if "uint8" in str(dtype):
            values = np.abs(values) % 256
        elif "int8" in str(dtype):
            values = np.clip(values, -128, 127)
    return library.array(values, dtype)


def run(library, seed=0, count=1000):
    report, generator = Report(), random.Random(seed)
    for _ in range(count):
        function, words = draw(library, generator)
        arrays = [array(library, generator, library.types)]
        # Of one floating type: a chain computes all in the wider one.
        alike = [one for one in library.types if "float" not in str(one) or one == arrays[0].dtype]
        arrays.append(array(library, generator, alike if "float" in str(arrays[0].dtype) else library.types))
        outcome, text = attempt(function, lambda: function(*arrays), arrays, library.to_numpy)  # noqa: B023
        kinds = ", ".join(str(one.dtype) for one in arrays)
        report.enter(type(library).__name__, outcome, text, lambda: f"({kinds}) {words()}")  # noqa: B023
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", nargs="?", help="a JSON file for the counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=5000, help="functions of each library")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {
        "command": "python python/tests/support/compositions.py tests/reports/compositions-fuse.json "
        f"--count {options.count}",
        "seed": options.seed,
    }
    for library in (Torch(), NumPy()):
        report = run(library, options.seed, options.count)
        counts = report.as_dict()
        found[type(library).__name__] = {key: one for key, one in counts.items() if not key.startswith("functions")}
        print(dict(report.counts), *report.failures[:40], sep="\n")
    if options.report:
        with open(options.report, "w") as file:
            file.write(json.dumps(found, indent=1) + "\n")
    sys.exit(any(one["failures"] for one in found.values() if isinstance(one, dict)))


if __name__ == "__main__":
    main()
