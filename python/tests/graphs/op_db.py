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
from support import watched  # noqa: E402

from epifuse import _partition, _torch_backend  # noqa: E402

TYPES = [getattr(torch, name) for name in "float64 float32 float16 bfloat16 bool int8 uint8 int32 int64".split()]
IN_CONTEXT = (torch.float32, torch.bool)
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


def _alone(function, tensors):
    return function, tensors


def _first(found):
    """The first tensor of a function's results that a chain may compute with."""
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool)
    return next((one for one in compare.tensors_of(found) if one.dtype in kinds), None)


def _as_statistic(function, tensors):
    """The mean of all that it gives, times an expression of an operand of one element; and that operand."""

    def statistic(scale, *tensors):
        value = _first(function(*tensors))
        if value is None:
            return scale
        return value.float().mean() * scale.exp(), torch.maximum(value.float().amax(), scale / 2), scale + 1

    return statistic, [torch.tensor(0.25), *tensors]


def _of_nothing(function, tensors):
    """Of tensors without elements, with pointwise operations before and behind."""

    def empty(*tensors):
        given = [torch.tanh(one) if one.dtype.is_floating_point else one for one in tensors]
        value = _first(function(*given))
        if value is None:
            return given
        value = value.float()
        found = [value + 1]
        for one in [value.flatten(), *given]:
            try:
                torch.broadcast_shapes(one.shape, value.shape)
            except RuntimeError:
                continue
            found.append(value + one)
        return found

    return empty, [one[..., :0] if one.dim() else one for one in tensors]


# What stands around an operation: a kernel may be another one then.
CONTEXTS = {"alone": _alone, "as a statistic": _as_statistic, "of nothing": _of_nothing}


def _seeded(function, tensors):
    torch.manual_seed(0)
    with compare.filled():
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


def outcome(op, sample, context=_alone, compiles=False):
    """(outcome, what is wrong). `compiles`: by NVRTC, too."""
    try:
        function, tensors = context(*function_of(op, sample))
        want = _seeded(function, tensors)
    except Exception:
        return "refused", ""
    try:
        if not _concerns_us(function, tensors):
            return "left", ""
    except Exception:
        pass  # some functions have a trace all the same
    try:
        with compare.reports() as reports, compare.chains() as chains:
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
    unfit = compare.uncompiled(chains) if compiles else ""
    if unfit:
        return "wrong", unfit
    problem = problem or _problem(found, want)
    if not problem:
        return "right", ""
    if not _problem(found, _seeded(compare.traced(function), tensors)):
        return "as traced", ""
    return "wrong", f"{problem}; kernels {[text for one in reports for text in one.kernels]}"


def run(ops, types=TYPES, most=None, told=lambda text: None, compiles=False):
    """Counts of outcomes by operator and type, and the defects. `most`: samples of each operator and type, of which the
    first of the types in IN_CONTEXT stands in all contexts. `compiles`: kernels by NVRTC, too."""
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
                for context in CONTEXTS if number == 0 and dtype in IN_CONTEXT else ("alone",):
                    watched.note(f"{name} {dtype} sample {number} {context}")
                    what, problem = outcome(op, sample, CONTEXTS[context], compiles)
                    counts[name][what] += 1
                    if what == "wrong":
                        defects.append(f"{name} {dtype} sample {number} {context}: {problem}")
                        told(defects[-1])
    return counts, defects


def main():
    """python python/tests/graphs/op_db.py --json tests/reports/op-db-graph.json"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="where the report goes")
    parser.add_argument("--only", default="", help="operators whose names hold this")
    parser.add_argument("--part", default="0/1", help="2/5: the operators number 2, 7, 12 and so on")
    parser.add_argument("--most", type=int, help="samples of each operator and type, all by default")
    parser.add_argument("--compile", action="store_true", help="each kernel by NVRTC, too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # of processes that fork: threads stay behind
    first, step = map(int, options.part.split("/"))
    begun = time.time()
    total, operators, defects, kernels = collections.Counter(), {}, [], 0
    compiles = options.compile and compare.has_nvrtc()
    ops = [op for op in op_db[first::step] if options.only in op.name]

    def judge(op):
        with torch.no_grad():
            counts, more = run([op], most=options.most, told=lambda text: print(text, flush=True), compiles=compiles)
        return dict(counts), more, len(compare.compiled_sources())

    for op, found, died in watched.each(ops, judge):
        counts, more, kernels = found or ({op.name: {"wrong": 1}}, [died], kernels)
        if died:
            print(died, flush=True)
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
                "kernels compiled by NVRTC": kernels,
                "total": dict(total),
                "operators": operators,
                "defects": defects,
            }
            pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    print(dict(total), f"{kernels} kernels compiled, {len(defects)} defects, {time.time() - begun:.0f} s")
    sys.exit(bool(defects))


if __name__ == "__main__":
    main()
