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

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "support")]
from graphs import compare, pool  # noqa: E402
from torch_table import op_db  # noqa: E402

from epifuse import _aten, _partition, _torch_backend  # noqa: E402

TYPES = [getattr(torch, name) for name in "float64 float32 float16 bfloat16 bool int8 uint8 int32 int64".split()]
IN_CONTEXT = (torch.float32, torch.bool)
OUTCOMES = {
    "right": "kernels of EpiFuse gave what eager PyTorch gives",
    "left": "no operation became a kernel: PyTorch runs the graph as it was",
    "untraced": "PyTorch's tracer refuses the sample, without EpiFuse as with it",
    "as traced": "kernels gave what PyTorch's own trace gives, which is not what eager PyTorch gives",
    "as one by one": "kernels gave what eager PyTorch gives on one element at a time, and not what it gives on many",
    "nearer": "where it is not what eager PyTorch gives, it lies nearer to what float64 gives",
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
    torch.default_generator.manual_seed(0)
    with compare.filled():
        found = function(*(one.detach().clone() for one in tensors))
    return found if isinstance(found, (tuple, list)) else (found,)


def _concerns_us(function, tensors):
    torch.default_generator.manual_seed(0)
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


def _is_nearer(function, tensors, found, want):
    wide = [one.double() if one.is_floating_point() else one for one in tensors]
    try:
        exact = _seeded(function, wide)
        return compare.all_nearer(*map(compare.tensors_of, (found, want, exact)))
    except (RuntimeError, TypeError, ValueError):  # it refuses float64 or gives something else then
        return False


def outcome(op, sample, context=_alone, compiles=False):
    """(outcome, what is wrong or differs). `compiles`: by NVRTC, too."""
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
    for what, other in (("as traced", compare.traced), ("as one by one", compare.one_by_one)):
        try:
            if not _problem(found, _seeded(other(function), tensors)):
                return what, problem
        except Exception:
            pass  # PyTorch's own trace of it does not run
    if _is_nearer(function, tensors, found, want):
        return "nearer", problem
    return "wrong", f"{problem}; kernels {[text for one in reports for text in one.kernels]}"


def name_of(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def run(ops, types=TYPES, most=None, told=lambda text: None, at=lambda where: None, compiles=False):
    """Counts of outcomes by operator, defects, and other differences from eager PyTorch. `most`: samples of each
    operator and type, of which the first of the types in IN_CONTEXT stands in all contexts. at(where) is told each sample
    before it runs. `compiles`: kernels by NVRTC, too."""
    counts, defects, differences = collections.defaultdict(collections.Counter), [], []
    for op in ops:
        name = name_of(op)
        for dtype in types:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            torch.default_generator.manual_seed(0)
            try:
                samples = list(op.sample_inputs("cpu", dtype))
            except Exception:
                counts[name]["refused"] += 1
                continue
            for number, sample in enumerate(samples[:most]):
                for context in CONTEXTS if number == 0 and dtype in IN_CONTEXT else ("alone",):
                    where = f"sample {number} {context}"
                    at(where)
                    what, problem = outcome(op, sample, CONTEXTS[context], compiles)
                    counts[name][what] += 1
                    if what == "wrong":
                        defects.append(f"{name} {dtype} {where}: {problem}")
                        told(defects[-1])
                    elif problem:
                        differences.append(f"{name} {dtype} {where}, {what}: {problem}")
    return counts, defects, differences


# ---- the whole table, shared among processes


def units_of(ops, most, compiles):
    """(place in op_db, place in TYPES, most, compiles): what a process takes at a time. Operators of ROWS first: a run that is
    cut short has seen them."""
    ours = {overload.overloadpacket.__name__ for overload in _aten.ROWS}
    ops = sorted(ops, key=lambda op: op.name not in ours)
    places = {id(op): place for place, op in enumerate(op_db)}
    return [
        (places[id(op)], kind, most, compiles)
        for op in ops
        for kind, dtype in enumerate(TYPES)
        if dtype in op.supported_dtypes("cpu")
    ]


def unit_done(unit, told):
    """Runs in a process of the pool."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    place, kind, most, compiles = unit
    with torch.no_grad():
        counts, defects, differences = run([op_db[place]], [TYPES[kind]], most, at=told, compiles=compiles)
    return dict(counts[name_of(op_db[place])]), defects, differences


class Report:
    """Counts by operator, and what was not reached; a file of an earlier run may be its beginning."""

    def __init__(self, before=None):
        before = before or {}
        self.seconds, self.begun = before.get("seconds", 0), time.time()
        self.commands = before.get("commands", []) + ["python " + " ".join(sys.argv)]
        self.operators = {name: collections.Counter(one) for name, one in before.get("operators", {}).items()}
        self.defects, self.differences = before.get("defects", []), before.get("differences", [])
        self.missing = before.get("not reached", {})

    def forget(self, name):
        """This operator is counted anew."""
        self.operators.pop(name, None)
        self.missing.pop(name, None)
        for found in (self.defects, self.differences):
            found[:] = [one for one in found if not one.startswith(f"{name} torch.")]

    def expect(self, unit):
        place, kind, *_ = unit
        types = self.missing.setdefault(name_of(op_db[place]), [])
        if str(TYPES[kind]) not in types:
            types.append(str(TYPES[kind]))

    def add(self, unit, counts, defects, differences):
        place, kind, *_ = unit
        name = name_of(op_db[place])
        self.operators.setdefault(name, collections.Counter()).update(counts)
        self.defects += defects
        self.differences += differences
        self.missing[name].remove(str(TYPES[kind]))
        if not self.missing[name]:
            del self.missing[name]

    def total(self):
        return dict(sum(self.operators.values(), collections.Counter()))

    def write(self, path):
        text = {
            "commands": self.commands,
            "torch": torch.__version__,
            "seconds": round(self.seconds + time.time() - self.begun),
            "outcomes": OUTCOMES,
            "total": self.total(),
            "operators": {name: dict(self.operators[name]) for name in sorted(self.operators)},
            "defects": sorted(self.defects),
            "differences": sorted(self.differences),
            "not reached": self.missing,
        }
        pathlib.Path(path).write_text(json.dumps(text, indent=1) + "\n")


def chosen_units(options, report):
    """What the options ask for: operators by name, or what an earlier run did not reach, or everything."""
    names = [one for one in options.operators.split(",") if one]
    unknown = set(names) - {name_of(op) for op in op_db}
    if unknown:
        sys.exit(f"the table has no operator {', '.join(sorted(unknown))}; names are as in a report")
    ops = [op for op in op_db if options.only in op.name and (not names or name_of(op) in names)]
    units = units_of(ops, options.most, options.compile and compare.has_nvrtc())
    if options.resume and not names:
        units = [one for one in units if str(TYPES[one[1]]) in report.missing.get(name_of(op_db[one[0]]), [])]
    return units


def main():
    """python python/tests/graphs/op_db.py --jobs 2 --json tests/reports/op-db-graph.json"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="where the report goes")
    parser.add_argument("--only", default="", help="operators whose names hold this")
    parser.add_argument("--operators", default="", help="names as in a report, with commas between")
    parser.add_argument("--most", type=int, help="samples of each operator and type, all by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, help="nothing new starts later; the report says what is missing")
    parser.add_argument("--resume", help="a report: what it did not reach is added; --operators are counted anew")
    parser.add_argument("--compile", action="store_true", help="each kernel by NVRTC, too")
    options = parser.parse_args()
    report = Report(json.loads(pathlib.Path(options.resume).read_text()) if options.resume else None)
    units, count, said = chosen_units(options, report), 0, time.time()
    for name in filter(None, options.operators.split(",")):
        report.forget(name)
    for unit in units:
        report.expect(unit)
    for unit, result in pool.done(unit_done, units, options.jobs, options.seconds):
        name = f"{name_of(op_db[unit[0]])} {TYPES[unit[1]]}"
        result = ({"wrong": 1}, [f"{name}: {result}"], []) if isinstance(result, pool.Ended) else result
        report.add(unit, *result)
        print(*(defects := result[1]), sep="\n", end="\n" if defects else "", flush=True)
        count += 1
        if time.time() - said > 10 or count == len(units):
            said = time.time()
            print(f"{count} of {len(units)} units, {said - report.begun:.0f} s: {report.total()}", flush=True)
            if options.json:
                report.write(options.json)
    if options.json:
        report.write(options.json)
    print(report.total(), f"{time.time() - report.begun:.0f} s; not reached: {report.missing or 'nothing'}")
    sys.exit(bool(report.defects))


if __name__ == "__main__":
    main()
