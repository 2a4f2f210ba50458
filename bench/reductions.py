#!/usr/bin/env python3
"""Chains with reductions on a GPU: EpiFuse, a copy of the same bytes, torch.compile and eager PyTorch, in one run.

    bench/reductions.py                                     # everything, to $OUT/reductions.json
    bench/reductions.py --cases 'softmax|level2 19' --dtypes f16 --no-torch
    bench/reductions.py --dry-run [--registers]             # plans of all cases; needs neither a GPU nor PyTorch

Each result is compared with PyTorch's in higher precision first; what is wrong is not timed. Then all contestants are
captured in CUDA graphs, which rotate through enough buffers that nothing is found in the L2 cache again, and replayed
in turn; medians. The document is written after every case. A case that crashes or hangs is recorded, and the rest goes
on in a new process. ./dev bench reductions runs this, with what it needs.
"""
import math
import re
import sys
import zlib

import bridge
import gpu_timing
import reductions_cases
import session
from gpu_timing import (Copy, Torch, Wrong, as_list, big_copy_bandwidth, bytes_of, difference, first_line, launches_for,
                        measure, raw, row_major, sets_for, torch_dtype, wait)
from plans import describe_plan, limit_of

torch = None  # set by use_torch(): looking at plans needs none

KNOWN_DTYPES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "bool": 1}  # bytes
MOST_F64_ELEMENTS = 600_000_000  # larger tensors are checked in f32: f64 would not fit
LARGEST_WARMED = 2 * 10**9  # bytes of a tensor


def use_torch():
    global torch
    import torch as module
    torch = module
    torch.set_grad_enabled(False)
    reductions_cases.use(torch)
    gpu_timing.use(torch)


# ---- operands and results


def is_channels_last(case, shape, is_result=False):
    return case.layout in (("channels_last",) if is_result else ("channels_last", "turned")) and len(shape) == 4


def resolved(dtype, of_case):
    return of_case if dtype == "same" else dtype


def make_operand(case, operand, dtype):
    if operand.fill == "mask":
        return torch.rand(operand.shape, device="cuda") > 0.2
    kind = torch_dtype(resolved(operand.dtype, dtype))
    if operand.fill != "normal":
        return torch.full(operand.shape, float(operand.fill), dtype=kind, device="cuda")
    tensor = torch.randn(operand.shape, dtype=kind, device="cuda")
    return tensor.to(memory_format=torch.channels_last) if is_channels_last(case, operand.shape) else tensor


def make_operands(case, dtype):
    return {name: make_operand(case, operand, dtype) for name, operand in case.inputs.items()}


def make_results(case, tail, inputs, dtype):
    results = []
    for shape, kind in zip(tail.result_shapes(inputs), case.results, strict=True):
        layout = torch.channels_last if is_channels_last(case, shape, True) else torch.contiguous_format
        kind = torch_dtype(resolved(kind, dtype))
        results.append(torch.empty(shape, dtype=kind, device="cuda", memory_format=layout))
    return results


def in_high_precision(tensors):
    large = max(tensor.numel() for tensor in tensors) > MOST_F64_ELEMENTS
    wide = torch.float32 if large else torch.float64
    return [tensor.to(wide) if tensor.is_floating_point() else tensor for tensor in tensors]


def check(case, dtype, launch, inputs, results):
    """Raises Wrong, or gives the errors and whether a second launch gives the same bytes."""
    for result in results:
        raw(result).fill_(0xFF)  # NaN, so that elements that are never written show
    launch()
    wait("EpiFuse's kernel")
    first = [raw(result).clone() for result in results]
    launch()
    wait("EpiFuse's kernel")
    repeatable = all(torch.equal(raw(result), before) for result, before in zip(results, first))
    del first
    expected = as_list(case.reference(*in_high_precision(inputs)))
    worst = worst_absolute = 0.0
    for result, right, kind in zip(results, expected, case.results, strict=True):
        error, absolute = difference(result, right, resolved(kind, dtype))
        worst, worst_absolute = max(worst, error), max(worst_absolute, absolute)
    if worst > 1:
        raise Wrong(f"wrong: the worst difference is {worst_absolute:.3g}, {worst:.3g} times the tolerance")
    return {"max_error": worst, "max_abs_error": worst_absolute, "repeatable": repeatable}


# ---- one case


def record_of(case, dtype):
    return {"case": case.name, "group": case.group, "dtype": dtype, "layout": case.layout, "text": case.text,
            "inputs": {name: {"shape": list(operand.shape), "dtype": resolved(operand.dtype, dtype)}
                       for name, operand in case.inputs.items()},
            "results": [resolved(kind, dtype) for kind in case.results],
            "limit": case.limit, "target": case.target, "published": case.published}


def as_written(case):
    """PyTorch's function, whose results lie as ours do."""
    return row_major(case.function) if case.layout == "turned" else case.function


def copies_of(tensors, sets):
    return [tensors] + [[tensor.clone() for tensor in tensors] for _ in range(sets - 1)]


def run_case(item, options):
    case, dtype = item
    with_torch = not options.no_torch and dtype in options.torch_dtypes
    record = record_of(case, dtype)
    torch.manual_seed(zlib.crc32(case.name.encode()))
    properties = torch.cuda.get_device_properties(0)
    tail = bridge.Tail(case.text)
    named = make_operands(case, dtype)
    inputs, order = list(named.values()), [list(named).index(name) for name in tail.inputs]
    results = make_results(case, tail, named, dtype)
    count = bytes_of(inputs + results)
    record |= {"bytes": count, "shapes": [list(result.shape) for result in results]}
    record["plan"] = describe_plan(tail, results, named, properties.major * 10 + properties.minor,
                                   big_copy_bandwidth())
    record["limited_by"] = f"{record['plan']['schedule']}, {limit_of(record['plan'])}"
    record |= check(case, dtype, lambda: tail(results, named, case.scalars), inputs, results)
    torch.cuda.empty_cache()  # graphs have pools of their own

    sets = sets_for(max(bytes_of([tensor]) for tensor in inputs + results), count)
    launches = launches_for(count, sets)
    input_sets, result_sets = copies_of(inputs, sets), copies_of(results, sets)
    contestants = {
        "copy": Copy(count, sets),
        "epifuse": lambda i: tail(result_sets[i], [input_sets[i][k] for k in order], case.scalars),
    }
    if with_torch:
        torch._dynamo.reset()
        function = as_written(case)
        compiled = torch.compile(function, fullgraph=True, dynamic=False)
        contestants |= {"compile": Torch(compiled, input_sets), "eager": Torch(function, input_sets)}
    problems = {}
    seconds, samples, copies = measure(contestants, sets, launches, options.seconds, problems)
    if with_torch:
        torch._dynamo.reset()
    return record | evaluate(case, count, seconds) | {
        "copies": copies, "samples": samples, "launches": launches, "sets": sets, "problems": problems}


def evaluate(case, count, seconds):
    limit = seconds["copy"] * reductions_cases.LIMITS[case.limit]
    read = count / big_copy_bandwidth()
    return {"seconds": seconds, "limit_seconds": limit, "read_seconds": read,
            "ratio": {name: seconds[name] / limit for name in seconds if name != "copy"},
            "read_ratio": seconds["epifuse"] / read if case.limit == "read" else None,
            "gbps": {name: count / value * 1e-9 for name, value in seconds.items()}}


def outcome(record):
    """One line for people."""
    if "error" in record:
        return "FAILED: " + record["error"]
    parts = [f"copy {record['seconds']['copy'] * 1e6:.1f} µs"]
    for name in ("epifuse", "compile", "eager"):
        if name in record["ratio"]:
            parts.append(f"{name} {record['ratio'][name]:.2f}")
    of_what = "" if record["limit"] == "copy" else ", of " + record["limit"]
    parts[1] += f" ({record['gbps']['epifuse']:.0f} GB/s{of_what})"
    parts += [f"{name}'s published {rate * 1e-9:.0f} GB/s" for name, rate in (record["published"] or {}).items()]
    parts += [f"{name}: {text.splitlines()[0]}" for name, text in record["problems"].items()]
    if not record["repeatable"]:
        parts.append("NOT REPEATABLE")
    if record["ratio"]["epifuse"] > record["target"]:
        parts.append(f"above {record['target']:.2f}")
    return f"{', '.join(parts)}; error {record['max_error']:.2f} of the tolerance; {record['limited_by']}"


# ---- which cases


def chosen(options):
    cases = [(case, dtype) for case in reductions_cases.ALL if re.search(options.cases, case.name)
             for dtype in case.dtypes if dtype in options.dtypes]
    return [(case, dtype) for case, dtype in cases if largest_bytes(case, dtype) <= options.max_bytes]


def largest_bytes(case, dtype):
    return max(math.prod(operand.shape) * KNOWN_DTYPES[resolved(operand.dtype, dtype)]
               for operand in case.inputs.values())


def compile_ahead(items, options):
    """With torch.compile, which keeps its kernels on disk for the run."""
    for case, dtype in items:
        if options.no_torch or dtype not in options.torch_dtypes or largest_bytes(case, dtype) > LARGEST_WARMED:
            continue
        torch._dynamo.reset()
        inputs = [make_operand(case, operand, dtype) for operand in case.inputs.values()]
        try:
            torch.compile(as_written(case), fullgraph=True, dynamic=False)(*inputs)
            torch.cuda.synchronize()
        except Exception as problem:  # the run itself will meet it and record it
            print(f"warming {case.name} {dtype}: {first_line(problem)}", flush=True)
        del inputs
        torch.cuda.empty_cache()


# ---- without a GPU


def view_of(case, shape, dtype, is_result=False):
    strides, step = [0] * len(shape), 1
    for d in (1, 3, 2, 0) if is_channels_last(case, shape, is_result) else range(len(shape) - 1, -1, -1):
        strides[d], step = step, step * shape[d]
    return bridge.View(0, dtype, tuple(shape), tuple(strides))


def planned(tail, case, dtype, architecture):
    """What the tail plans for a case, and for an architecture that is not 0 what its kernel takes."""
    inputs = {name: view_of(case, operand.shape, resolved(operand.dtype, dtype))
              for name, operand in case.inputs.items()}
    results = [view_of(case, shape, resolved(kind, dtype), True)
               for shape, kind in zip(tail.result_shapes(inputs), case.results, strict=True)]
    plan = describe_plan(tail, results, inputs, architecture, 0.0)
    return f"{plan['schedule']}; {limit_of(plan)}; {plan['class']}"


def dry_run(options):
    failed = 0
    for case, dtype in chosen(options):
        try:
            plan = planned(bridge.Tail(case.text), case, dtype, 90 if options.registers else 0)
            print(f"{case.name} {dtype}: {plan}", flush=True)
        except bridge.Error as problem:
            failed += 1
            print(f"{case.name} {dtype}: FAILED: {first_line(problem)}", flush=True)
    return session.FAILED if failed else session.DONE


def parse_options():
    parser = session.parser(__doc__, "reductions.json")
    parser.add_argument("--dtypes", type=session.listed, default=["f32", "f16", "bf16"], help="of f32,f16,bf16")
    parser.add_argument("--torch-dtypes", type=session.listed, default=["f32", "f16", "bf16"], help="with PyTorch beside")
    parser.add_argument("--no-torch", action="store_true", help="time only the copy and EpiFuse")
    parser.add_argument("--registers", action="store_true", help="compile in the dry run too (NVRTC)")
    options = session.parsed(parser)
    if options.no_torch:
        options.warm = 0  # nothing to compile ahead
    return options


def main():
    options = parse_options()
    if options.list:
        for case, dtype in chosen(options):
            print(f"{case.name} {dtype}: {case.text}")
        return session.DONE
    bench = session.Bench(script=__file__, chosen=chosen, record_of=lambda item: record_of(*item), run=run_case,
                          outcome=outcome, compile_ahead=compile_ahead, use_torch=use_torch)
    return session.main(bench, options, dry_run)


if __name__ == "__main__":
    sys.exit(main())
