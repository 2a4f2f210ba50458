#!/usr/bin/env python3
"""Pointwise chains on a GPU: EpiFuse, a copy of the same bytes, torch.compile, eager PyTorch, CuPy's ElementwiseKernel and the kernel
that one writes by hand first, in one run.

    bench/pointwise.py --warm 8                                # everything, to $OUT/pointwise.json
    bench/pointwise.py --part 1/2                              # half of the cases; tables.py merge joins them
    bench/pointwise.py --cases 'mish|level2 95' --types f16 --no-compile --no-cupy
    bench/pointwise.py --dry-run [--registers]                 # plans, and what can be compiled without a GPU

EpiFuse's results, CuPy's and those of the kernel by hand are compared with PyTorch's in f64 first; what is wrong is not timed. Then
all contestants are captured in CUDA graphs, which rotate through enough buffers that nothing is found in the L2 cache again (small
ones are displaced from it between replays), and replayed in turn; medians. The document is written after every case. A case
that crashes or hangs is recorded, and the rest goes on in a new process. ./dev bench pointwise runs this, with what it needs.
"""
import functools
import importlib.util
import math
import re
import sys
import zlib

import bridge
import by_hand
import gpu_timing
import pointwise_cases
import pointwise_peers as peers
import sass
import session
from gpu_timing import Copy, Wrong, big_copy_bandwidth, capture, difference, first_line, launches_for, measure, wait
from plans import describe_plan, limit_of
from record import asked_of_gpu

torch = None  # set by use_torch(): looking at plans needs none

MOST_SETS = 512  # of buffers: smaller ones than that makes necessary are displaced from the L2 cache by a copy instead
LARGEST_WARMED = 1.2e9  # bytes of a tensor: several processes compile ahead on one GPU
PIECE = 2**25  # elements that are compared at a time


def use_torch():
    global torch
    import torch as module
    torch = module
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # f32 is f32 in producers too
    torch.backends.cudnn.benchmark = True
    gpu_timing.use(torch)
    peers.use(torch)


def settings():
    """What the time of instructions is computed from."""
    properties = torch.cuda.get_device_properties(0)
    clock = asked_of_gpu("clocks.max.sm") or ""
    return {"multiprocessors": properties.multi_processor_count, "l2_bytes": gpu_timing.l2_bytes(),
            "clock_hz": float(clock) * 1e6 if clock.isdigit() else None}


def architecture():
    properties = torch.cuda.get_device_properties(0)
    return properties.major * 10 + properties.minor


# ---- one case


def record_of(case):
    def described(operand):
        layout = operand.layout
        return {"dtype": operand.dtype, "shape": list(layout.shape), "strides": list(layout.strides), "offset": layout.offset}

    ratio, seconds = pointwise_cases.target(case)
    return {"case": case.name, "group": case.group, "dtype": case.types, "text": case.text,
            "operands": {name: described(operand) for name, operand in case.operands.items()},
            "result": described(case.result), "view": case.view, "bytes": case.bytes(), "traffic": case.traffic(),
            "elements": math.prod(case.result.layout.shape), "largest_bytes": case.largest_bytes(),
            "producer": case.producer.kind if case.producer else None,
            "target": {"ratio": ratio, "seconds": seconds}}


@functools.cache
def tail_of(text):
    return bridge.Tail(text)


def instructions_of(case, tail, results, inputs, arch, known):
    """Per element of EpiFuse's kernel; kernels of one class are looked at once."""
    item = pointwise_cases.ITEM_BYTES[case.result.dtype]
    key = (case.text, known)
    if key not in instructions_of.found:
        instructions_of.found[key] = sass.per_element(tail.cubin(results, inputs, arch), item)
    return instructions_of.found[key]


instructions_of.found = {}


def check(case, name, run, results, inputs, reference):
    """Raises Wrong, or gives the worst difference in units of the tolerance."""
    peers.bytes_in_memory(results).fill_(0xFF)  # NaN, so that elements that are never written show
    run(0)
    wait(f"the kernel of {name}")
    found, shape = results[0], case.result.layout.shape
    wide = [tensor.broadcast_to(shape) for tensor in inputs]
    rows = max(1, PIECE * shape[0] // math.prod(shape))
    worst = 0.0
    for first in range(0, shape[0], rows):
        piece = slice(first, first + rows)
        error, absolute = difference(found[piece], reference(*[tensor[piece].double() for tensor in wide]), case.result.dtype)
        if error > 1:
            raise Wrong(f"{name} is wrong: off by {absolute:.3g}, {error:.3g} times the tolerance")
        worst = max(worst, error)
    return worst


def checked(case, ours, results, inputs, problems):
    """The worst difference of each. A peer that is wrong is left out, and `problems` says so; ours and the kernel by hand must be right."""
    errors, reference = {}, peers.reference(case)
    for name, run in list(ours.items()):
        try:
            errors[name] = check(case, name, run, results, inputs, reference)
        except Exception as problem:
            if name not in gpu_timing.PEERS or isinstance(problem, gpu_timing.Hang):
                raise
            problems[name] = first_line(problem)
            del ours[name]
    return errors


def run_case(case, options):
    record = record_of(case)
    torch.manual_seed(zlib.crc32(case.name.encode()))
    sets = gpu_timing.sets_for(record["largest_bytes"], record["traffic"])
    small, sets = sets > MOST_SETS, min(sets, MOST_SETS)
    columns = {name: peers.make_sets(operand, sets) for name, operand in case.operands.items()}
    input_sets = [list(row) for row in zip(*columns.values())]
    results = peers.make_sets(case.result, sets, filled=False)
    arch, tail = architecture(), tail_of(case.text)
    named = dict(zip(columns, input_sets[0]))
    record["plan"] = plan = describe_plan(tail, results[:1], named, arch, big_copy_bandwidth())
    record["limited_by"] = limit_of(plan)
    record["per_element"] = instructions_of(case, tail, results[:1], named, arch, plan["class"])

    problems, producer = {}, peers.producer(case)
    ours = {"epifuse": peers.epifuse(tail, list(columns), input_sets, results),
            "by_hand": peers.by_hand_run(case, arch, input_sets, results)}
    if not options.no_cupy and not producer:
        ours |= peers.of_cupy(case, input_sets, results, problems)
    record["errors"] = checked(case, ours, results, input_sets[0], problems)
    torch.cuda.empty_cache()  # graphs have pools of their own

    if producer:
        ours = peers.behind(producer, tail, list(columns), input_sets, results)
    contestants = {"copy": Copy(record["traffic"], sets), **ours}
    contestants |= peers.of_torch(case, producer, columns, input_sets, options)
    launches = sets if small or producer else launches_for(record["traffic"], sets)  # a producer takes long enough by itself
    flush_copy = Copy(gpu_timing.CACHE_MULTIPLE * gpu_timing.l2_bytes(), 1) if small else None
    flush = capture(flush_copy, 1, 1) if small else None
    seconds, samples, copies = measure(contestants, sets, launches, options.seconds, problems, flush)
    if "compile" in contestants:
        torch._dynamo.reset()
    return record | evaluate(record, seconds) | {"copies": copies, "samples": samples, "launches": launches, "sets": sets, "problems": problems}


def evaluate(record, seconds):
    """A pair's limit is its producer and a copy; else a copy."""
    limit = seconds["copy"] + seconds.get("producer", 0)
    return {"seconds": seconds, "ratio": {name: value / limit for name, value in seconds.items() if name not in ("copy", "producer")},
            "gbps": {name: record["traffic"] / value * 1e-9 for name, value in seconds.items() if not record["producer"]}}


def outcome(record):
    """One line for people."""
    if "error" in record:
        return "FAILED: " + record["error"]
    parts = [f"copy {record['seconds']['copy'] * 1e6:.2f} µs"]
    parts += [f"{name} {ratio:.3f}" for name, ratio in record["ratio"].items()]
    if record["per_element"]:
        parts.append(f"{record['per_element']['instructions']:.1f} instructions per element")
    parts += [f"{name}: {text.splitlines()[0][:160]}" for name, text in record["problems"].items()]
    return f"{', '.join(parts)}; {record['plan']['schedule']}, {record['limited_by']}"


# ---- which cases


def chosen(options):
    index, _, count = options.part.partition("/")
    cases = [case for case in pointwise_cases.ALL
             if re.search(options.cases, f"{case.group}: {case.name}") and case.types in options.types]
    return [case for case in cases if case.largest_bytes() <= options.max_bytes][int(index) - 1::int(count)]


def compile_ahead(items, options):
    """What torch.compile and CuPy keep on disk for the run."""
    for case in items:
        if case.largest_bytes() > LARGEST_WARMED:
            continue
        columns = {name: peers.make_sets(operand, 1) for name, operand in case.operands.items()}
        input_sets = [[column[0] for column in columns.values()]]
        try:
            if not options.no_cupy and not case.producer:
                for run in peers.of_cupy(case, input_sets, peers.make_sets(case.result, 1, filled=False), {}).values():
                    run(0)
            for name, run in peers.of_torch(case, peers.producer(case), columns, input_sets, options).items():
                if name == "compile":
                    run(0)
            torch.cuda.synchronize()
        except Exception as problem:  # the run itself will meet it and record it
            print(f"compiling ahead {case.name} {case.types}: {first_line(problem)}", flush=True)
        torch._dynamo.reset()
        del columns, input_sets
        torch.cuda.empty_cache()


# ---- without a GPU


def view_of(operand, number=0):
    """Without memory; at an offset, at an address that is as aligned as it, apart from the other operands."""
    layout = operand.layout
    address = (number + 1 << 40) + layout.offset * layout.itemsize if layout.offset else 0
    return bridge.View(address, operand.dtype, layout.shape, layout.strides)


def compiled_without_gpu(case, options):
    """A line about the plan; compiles EpiFuse's kernel (--registers) and the one by hand for an H100."""
    tail, inputs = tail_of(case.text), {name: view_of(operand, k) for k, (name, operand) in enumerate(case.operands.items())}
    results = [view_of(case.result)]
    plan = describe_plan(tail, results, inputs, 90 if options.registers else 0, 0.0)
    by_hand.cubin(peers.by_hand_kernel(case).source, 90)
    parts = [plan["schedule"], limit_of(plan)]
    if options.registers and sass.disassembler():
        spent = instructions_of(case, tail, results, inputs, 90, plan["class"])
        parts.append(f"{spent['instructions']:.1f} instructions and {spent['special']:.1f} of the special units per element")
    if importlib.util.find_spec("torch"):
        peers.check_shapes(case)
    return "; ".join(parts + [plan["class"]])


def dry_run(options):
    if importlib.util.find_spec("torch"):
        use_torch()
    failed = 0
    for case in chosen(options):
        try:
            print(f"{case.name} {case.types}: {compiled_without_gpu(case, options)}", flush=True)
        except (bridge.Error, by_hand.Error, Wrong, TypeError, RuntimeError) as problem:
            failed += 1
            print(f"{case.name} {case.types}: FAILED: {first_line(problem)}", flush=True)
    return session.FAILED if failed else session.DONE


def parse_options():
    parser = session.parser(__doc__, "pointwise.json")
    parser.add_argument("--types", "--dtypes", type=session.listed, default=list(pointwise_cases.ALL_TYPES),
                        help=f"of {','.join(pointwise_cases.ALL_TYPES)}")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="every N-th case from the K-th on")
    parser.add_argument("--no-torch", action="store_true", help="without PyTorch, eager or compiled")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--no-cupy", action="store_true", help="without CuPy")
    parser.add_argument("--registers", action="store_true", help="compile EpiFuse's kernels in the dry run too")
    options = session.parsed(parser)
    if not re.fullmatch(r"[1-9]\d*/[1-9]\d*", options.part):
        parser.error(f"--part {options.part}: expected K/N, such as 1/2")
    if options.no_cupy and (options.no_torch or options.no_compile):
        options.warm = 0  # nothing to compile ahead
    return options


def main():
    options = parse_options()
    if options.list:
        for case in chosen(options):
            print(f"{case.group}: {case.name} {case.types}: {case.text}")
        return session.DONE
    bench = session.Bench(script=__file__, chosen=chosen, record_of=record_of, run=run_case, outcome=outcome,
                          compile_ahead=compile_ahead, use_torch=use_torch, settings=settings,
                          versions=lambda: {"cupy": peers.cupy_version()})
    return session.main(bench, options, dry_run)


if __name__ == "__main__":
    sys.exit(main())
