"""PyTorch's own table of operations over @epifuse.fuse: each operation with its sample inputs, in each type, as a
function, a method, an operator and in place, with numbers as constants and as run-time scalars; and what PyTorch itself
says are errors. python python/tests/support/op_db.py tests/reports/op-db-fuse.json does all of it."""

import argparse
import json
import random
import sys
import time
import warnings

import numpy as np
import torch
import wording
from agreement import Report, attempt
from torch_table import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from epifuse._arrays import NAMES, dtype_name

DTYPES = [getattr(torch, name) for name in NAMES.values()]
RANDOM = ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted")
_TOLD = {}  # what is wrong with a sentence, by function and sentence
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


def to_numpy(value):
    if not isinstance(value, torch.Tensor):
        return np.asarray(value, np.float64), "f64", False
    value = value.detach()
    value = value.resolve_neg() if value.is_neg() else value
    if value.dtype not in DTYPES:
        return value.to(torch.float64).numpy(), "other", True
    return value.to(torch.float64).numpy(), dtype_name(value.dtype), value.dtype not in FLOATS


def variants(op):
    """(name, callable) of every way to call an operation, with the method and the operator beside the function."""
    return [
        (name, by_name(one))
        for name, one in (
            ("function", op.op),
            ("method", op.method_variant),
            ("operator", op.operator_variant),
            ("in place", op.inplace_variant),
            ("operator in place", op.inplace_operator_variant),
        )
        if one is not None
    ]


def by_name(call):
    """A method of tensors, which no other object has, as what its name is of the object at hand."""
    if not hasattr(call, "__objclass__"):
        return call
    name = call.__name__
    return lambda value, *args, **kwargs: getattr(value, name)(*args, **kwargs)


def normalised(call):
    """What it gives, with a softmax over each of its dimensions: where it has several, no kernel holds them all, and an
    error says so."""

    def run(*args, **kwargs):
        value = call(*args, **kwargs)
        for dim in range(value.dim() if hasattr(value, "dim") else 0):
            value = torch.softmax(value, dim)
        return value

    return run


def split(values, of_numbers):
    """A sample as what fuse takes: (arrays, a function that puts arrays into their places)."""
    leaves, tree = tree_flatten(values)

    def is_given(value):
        number = of_numbers and isinstance(value, (int, float)) and not isinstance(value, bool)
        return isinstance(value, torch.Tensor) or number

    places = [i for i, value in enumerate(leaves) if is_given(value)]

    def put(given):
        again = list(leaves)
        for place, value in zip(places, given):
            again[place] = value
        return tree_unflatten(again, tree)

    return [leaves[place] for place in places], put


def try_sample(report, name, call, sample_values, of_numbers):
    arrays, put = split(sample_values, of_numbers)
    if not any(isinstance(one, torch.Tensor) for one in arrays):
        return
    arrays = [one.detach() if isinstance(one, torch.Tensor) else one for one in arrays]
    tensors = [one for one in arrays if isinstance(one, torch.Tensor)]
    if any(one.layout != torch.strided or one.dtype not in DTYPES for one in tensors):
        return

    def function(*given):
        args, kwargs = put(given)
        return call(*args, **kwargs)

    def reference():
        args, kwargs = put([one.clone() if isinstance(one, torch.Tensor) else one for one in arrays])
        return call(*args, **kwargs)

    def wide():
        narrow = (torch.float16, torch.bfloat16)
        more = [one.double() if isinstance(one, torch.Tensor) and one.dtype in narrow else one for one in arrays]
        return function(*more)

    narrow = any(isinstance(one, torch.Tensor) and one.dtype in (torch.float16, torch.bfloat16) for one in arrays)

    def misnamed(sentence):
        """Each sentence of a function once."""
        if (name, sentence) in _TOLD:
            return _TOLD[name, sentence]
        names = {*name.partition(" (")[0].split("."), *wording.called_by(reference)}
        return _TOLD.setdefault((name, sentence), wording.misnamed(sentence, names))

    outcome, text = attempt(function, reference, arrays, to_numpy, wide if narrow else None, misnamed)
    report.enter(name, outcome, text, lambda: describe(arrays, sample_values, of_numbers))


def describe(arrays, values, of_numbers):
    leaves = tree_flatten(values)[0]
    shown = [
        f"{str(one.dtype).removeprefix('torch.')}{list(one.shape)}" if isinstance(one, torch.Tensor) else repr(one)
        for one in leaves
    ]
    return f"({', '.join(shown)}){' numbers at run time' if of_numbers else ''}"


def samples_of(op, dtype, most, generator):
    samples = op.sample_inputs("cpu", dtype, requires_grad=False)
    if most is None:
        return list(samples)
    found = []
    for sample in samples:  # they are made one by one
        found.append(sample)
        if len(found) >= 4 * most:
            break
    return generator.sample(found, min(most, len(found)))


def run(seed=0, most_samples=None, most_types=None, seconds=None, only=None):
    """`most_samples`, `most_types`: of each operation, drawn by `seed`; all of them by default."""
    report, generator, start = Report(), random.Random(seed), time.monotonic()
    operations = [op for op in op_db if only is None or op.name == only]
    for op in operations:
        if seconds is not None and time.monotonic() - start > seconds:
            raise TimeoutError(f"{seconds} s are over at '{op.name}'")
        name = f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}"
        types = [dtype for dtype in DTYPES if dtype in op.supported_dtypes("cpu")]
        if most_types is not None:
            types = generator.sample(types, min(most_types, len(types)))
        for dtype in types:
            torch.manual_seed(seed)
            for number, sample in enumerate(samples_of(op, dtype, most_samples, generator)):
                values = ((sample.input, *sample.args), dict(sample.kwargs))
                for kind, call in variants(op):
                    try_sample(report, f"{name} ({kind})", call, values, of_numbers=False)
                try_sample(report, f"{name} (function)", by_name(op.op), values, of_numbers=True)
                if number < 3 and dtype in (torch.float32, torch.float64) and op.name not in RANDOM:
                    try_sample(report, f"{name} (normalised)", normalised(by_name(op.op)), values, of_numbers=False)
        if op.error_inputs_func is not None:
            errors(report, name, op)
    return report


def errors(report, name, op):
    """What PyTorch says must not be computed."""
    try:
        found = list(op.error_inputs("cpu"))
    except Exception:  # some of these need a device
        return
    for error in found:
        sample = error.sample_input
        values = ((sample.input, *sample.args), dict(sample.kwargs))
        try_sample(report, f"{name} (errors)", by_name(op.op), values, of_numbers=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", nargs="?", help="a JSON file for the counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, help="of each operation and type; all by default")
    parser.add_argument("--types", type=int, help="of each operation; all by default")
    parser.add_argument("--errors", action="store_true", help="also what PyTorch computes and EpiFuse has an error for")
    parser.add_argument("--only", help="one operation")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.monotonic()
    report = run(options.seed, options.samples, options.types, only=options.only)
    found = {
        "command": "python python/tests/support/op_db.py tests/reports/op-db-fuse.json",
        "torch": torch.__version__,
        "seed": options.seed,
        "compared": "types of results (but float64, where no operand is); integers and truth values exactly, "
        "floats within the tolerance of the coarser type, of 16-bit operands also against the same in float64",
        "seconds": round(time.monotonic() - start),
        **report.as_dict(),
    }
    text = json.dumps(found, indent=1)
    if options.report:
        with open(options.report, "w") as file:
            file.write(text + "\n")
    print("\n".join(report.failures[:200]))
    if options.errors:
        print("\n".join(f"{count} {text}" for text, count in report.why.most_common()))
    print({key: found[key] for key in ("attempts", "right", "untraceable", "error", "wrong", "seconds")})
    sys.exit(bool(report.failures))


if __name__ == "__main__":
    main()
