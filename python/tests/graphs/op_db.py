"""PyTorch's own table of operations with its samples, over the graph backend: each operator, sample and type is right, or
left to PyTorch. Run as a program it writes the counts: see main(). test_op_db_graph.py runs a share."""

import argparse
import collections
import json
import pathlib
import sys
import time
import warnings

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from graphs import compare  # noqa: E402

from epifuse import _partition, _torch_backend  # noqa: E402

TYPES = [getattr(torch, name) for name in "float64 float32 float16 bfloat16 bool int8 uint8 int32 int64".split()]
OUTCOMES = {
    "right": "kernels of EpiFuse gave what eager PyTorch gives",
    "left": "no operation became a kernel: PyTorch runs the graph as it was",
    "untraced": "PyTorch's tracer refuses the sample, without EpiFuse as with it",
    "as traced": "kernels gave what PyTorch's own trace gives, which is not what eager PyTorch gives",
    "refused": "eager PyTorch refuses the sample",
    "wrong": "anything else: a defect",
}


def function_of(op, sample):
    """The sample as a function of its tensors, and these."""
    given = [sample.input, sample.args, sample.kwargs]

    def filled(value, tensors):
        if isinstance(value, torch.Tensor):
            return next(tensors)
        if isinstance(value, dict):
            return {key: filled(one, tensors) for key, one in value.items()}
        return type(value)([filled(one, tensors) for one in value]) if type(value) in (list, tuple) else value

    def function(*tensors):
        source = iter(tensors)
        value, args, kwargs = filled(given[0], source), filled(given[1], source), filled(given[2], source)
        return op(value, *args, **kwargs)

    return function, compare.tensors_of(given)


def _seeded(function, tensors):
    torch.manual_seed(0)
    found = function(*(one.detach().clone() for one in tensors))
    return found if isinstance(found, (tuple, list)) else (found,)


def _concerns_us(function, tensors):
    torch.manual_seed(0)
    graph = make_fx(
        torch.func.functionalize(function), decomposition_table=_torch_backend._DECOMPOSED, tracing_mode="fake"
    )(*tensors).graph
    return any(_partition.row_of(node) is not None or node.target in _CASTS for node in graph.nodes)


_CASTS = {torch.ops.aten._to_copy.default}


def _problem(found, want):
    found, want = compare.tensors_of(found), compare.tensors_of(want)
    if len(found) != len(want):
        return f"{len(found)} tensors for {len(want)}"
    return next(filter(None, map(compare.difference, found, want)), "")


def outcome(op, sample):
    """(outcome, what is wrong)"""
    function, tensors = function_of(op, sample)
    try:
        want = _seeded(function, tensors)
    except Exception:
        return "refused", ""
    try:
        if not _concerns_us(function, tensors):
            return "left", ""
    except Exception:
        pass  # some functions have a trace all the same
    try:
        with compare.reports() as reports:
            found = _seeded(compare.compiled(function), tensors)
        problem = "" if any(one.fallback for one in reports) is False else "the partitioner failed"
    except Exception as raised:
        problem = f"{type(raised).__name__}: {str(raised)[:300]}"
        try:
            _seeded(compare.traced(function), tensors)
        except Exception:
            return "untraced", ""
        return "wrong", problem
    if not any(one.kernels for one in reports) and not problem:
        return "left", ""
    problem = problem or _problem(found, want)
    if not problem:
        return "right", ""
    if not _problem(found, _seeded(compare.traced(function), tensors)):
        return "as traced", ""
    return "wrong", f"{problem}; kernels {[text for one in reports for text in one.kernels]}"


def run(ops, types=TYPES, most=None, told=lambda text: None):
    """Counts of outcomes by operator and type, and the defects. `most`: samples of each operator and type."""
    counts, defects = collections.defaultdict(collections.Counter), []
    for op in ops:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        for dtype in types:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            torch.manual_seed(0)
            try:
                samples = list(op.sample_inputs("cpu", dtype))
            except Exception:
                counts[name]["refused"] += 1
                continue
            for number, sample in enumerate(samples[:most]):
                what, problem = outcome(op, sample)
                counts[name][what] += 1
                if what == "wrong":
                    defects.append(f"{name} {dtype} sample {number}: {problem}")
                    told(defects[-1])
    return counts, defects


def main():
    """python python/tests/graphs/op_db.py --json tests/reports/op-db-graph.json"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="where the report goes")
    parser.add_argument("--only", default="", help="operators whose names hold this")
    parser.add_argument("--part", default="0/1", help="2/5: the operators number 2, 7, 12 and so on")
    parser.add_argument("--most", type=int, help="samples of each operator and type, all by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    first, step = map(int, options.part.split("/"))
    begun = time.time()
    total, operators, defects = collections.Counter(), {}, []
    for op in [op for op in op_db[first::step] if options.only in op.name]:
        with torch.no_grad():
            counts, more = run([op], most=options.most, told=lambda text: print(text, flush=True))
        for name, one in counts.items():
            total.update(one)
            operators[name] = dict(one)
        defects += more
        if options.json:
            report = {
                "command": "python " + " ".join(sys.argv),
                "torch": torch.__version__,
                "seconds": round(time.time() - begun),
                "outcomes": OUTCOMES,
                "total": dict(total),
                "operators": operators,
                "defects": defects,
            }
            pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    print(dict(total), f"{time.time() - begun:.0f} s")


if __name__ == "__main__":
    main()
