#!/usr/bin/env python3
"""Chains with reductions on a GPU: EpiFuse, a copy of the same bytes, torch.compile and eager PyTorch, in one run.

    bench/reductions.py                                     # everything, to $OUT/reductions.json
    bench/reductions.py --cases 'softmax|level2 19' --dtypes f16 --no-torch
    bench/reductions.py --dry-run [--registers]             # plans of all cases; needs neither a GPU nor PyTorch

Each result is compared with PyTorch's in higher precision first; what is wrong is not timed. Then all contestants are
captured in CUDA graphs, which rotate through enough buffers that nothing is found in the L2 cache again, and replayed
in turn; medians. The document is written after every case. A case that crashes or hangs is recorded, and the rest goes
on in a new process. bench/reductions_table.py makes the table and the picture of it.
"""
import argparse
import datetime
import functools
import gc
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
import zlib

import bridge
import gpu_timing
import reductions_cases
from gpu_timing import (MOST_DETAIL, Copy, Hang, Torch, Wrong, capture, difference, first_line, measure, sample,
                        wait)

torch = None  # set by use_torch(): looking at plans needs none

KNOWN_DTYPES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "bool": 1}  # bytes
MOST_F64_ELEMENTS = 600_000_000  # larger tensors are checked in f32: f64 would not fit
CACHE_MULTIPLE = 3  # rotate through this many times the L2 cache
LARGE_TENSOR = 10**9  # bytes: as good as several sets
GRAPH_SECONDS = 2e-3  # of one replay: its start does not show
MOST_LAUNCHES = 1000
BIG_COPY = 2**31  # bytes each way
LARGEST_WARMED = 2 * 10**9  # bytes of a tensor
RESTART, DONE, FAILED = 75, 0, 1  # exit codes of a worker


def use_torch():
    global torch
    import torch as module
    torch = module
    torch.set_grad_enabled(False)
    reductions_cases.use(torch)
    gpu_timing.use(torch)


# ---- operands and results


def torch_dtype(name):
    return next(getattr(torch, theirs) for theirs, ours in bridge.DTYPES.items() if ours == name)


def is_channels_last(case, shape):
    return case.layout == "channels_last" and len(shape) == 4


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


def make_results(case, tail, inputs, dtype):
    results = []
    for shape, kind in zip(tail.result_shapes(inputs), case.results, strict=True):
        layout = torch.channels_last if is_channels_last(case, shape) else torch.contiguous_format
        kind = torch_dtype(resolved(kind, dtype))
        results.append(torch.empty(shape, dtype=kind, device="cuda", memory_format=layout))
    return results


def raw(tensor):
    """The bytes of a dense tensor, in the order of memory."""
    return torch.empty(0, dtype=torch.uint8, device="cuda").set_(tensor.untyped_storage())


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def in_high_precision(tensors):
    large = max(tensor.numel() for tensor in tensors) > MOST_F64_ELEMENTS
    wide = torch.float32 if large else torch.float64
    return [tensor.to(wide) if tensor.is_floating_point() else tensor for tensor in tensors]


def as_list(results):
    return list(results) if isinstance(results, tuple) else [results]


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


# ---- timing


@functools.cache
def big_copy_bandwidth():
    """Bytes read and written per second by a copy far larger than any cache."""
    copy, launches = Copy(2 * BIG_COPY, 1), 2
    times = sample({"copy": capture(copy, 1, launches)}, 0.1)["copy"]
    del copy
    torch.cuda.empty_cache()
    return 2 * BIG_COPY * launches / statistics.median(times)


# ---- one case


def plan_lines(text):
    """The lines of a printed plan that are not operands: key -> text."""
    matches = (re.match(r"(\w[\w ]*?)  +(.*)", line) for line in text.splitlines())
    return {match[1]: match[2] for match in matches if match}


def describe_plan(tail, results, inputs, architecture, bandwidth):
    plan = tail.plan(results, inputs, architecture, bandwidth)
    plan["lines"] = plan_lines(plan["text"])
    return plan


def limit_of(plan):
    """Blocks in all and in flight, and what bounds those: registers, shared memory, threads."""
    parts = [f"{plan['blocks']} blocks of {plan['threads']} threads"]
    if plan["registers"]:
        parts.append(f"{plan['registers']} registers")
    if plan["spilled_bytes"]:
        parts.append(f"{plan['spilled_bytes']} bytes spilled")
    flight = re.match(r"(\d+) blocks? .*\(limited by (.*)\), (.*) asked for", plan["lines"].get("in flight", ""))
    if flight:
        parts.append(f"{flight[1]} in flight per SM with {flight[3]} asked for, bound by {flight[2]}")
    return ", ".join(parts)


def record_of(case, dtype):
    return {"case": case.name, "group": case.group, "dtype": dtype, "layout": case.layout, "text": case.text,
            "inputs": {name: {"shape": list(operand.shape), "dtype": resolved(operand.dtype, dtype)}
                       for name, operand in case.inputs.items()},
            "results": [resolved(kind, dtype) for kind in case.results],
            "limit": case.limit, "target": case.target, "published": case.published}


def sets_for(tensors, l2_bytes):
    if max(tensor.numel() * tensor.element_size() for tensor in tensors) > LARGE_TENSOR:
        return 1
    return max(2, math.ceil(CACHE_MULTIPLE * l2_bytes / bytes_of(tensors)))


def copies_of(tensors, sets):
    return [tensors] + [[tensor.clone() for tensor in tensors] for _ in range(sets - 1)]


def run_case(case, dtype, options, with_torch):
    record = record_of(case, dtype)
    torch.manual_seed(zlib.crc32(case.name.encode()))
    properties = torch.cuda.get_device_properties(0)
    tail = bridge.Tail(case.text)
    named = {name: make_operand(case, operand, dtype) for name, operand in case.inputs.items()}
    inputs, order = list(named.values()), [list(named).index(name) for name in tail.inputs]
    results = make_results(case, tail, named, dtype)
    count = bytes_of(inputs + results)
    record |= {"bytes": count, "shapes": [list(result.shape) for result in results]}
    record["plan"] = describe_plan(tail, results, named, properties.major * 10 + properties.minor,
                                   big_copy_bandwidth())
    record["limited_by"] = f"{record['plan']['schedule']}, {limit_of(record['plan'])}"
    record |= check(case, dtype, lambda: tail(results, named, case.scalars), inputs, results)
    torch.cuda.empty_cache()  # graphs have pools of their own

    sets = sets_for(inputs + results, getattr(properties, "L2_cache_size", 50 * 2**20))
    launches = min(MOST_LAUNCHES, max(1, math.ceil(GRAPH_SECONDS * big_copy_bandwidth() / count)))
    launches = math.ceil(launches / sets) * sets
    input_sets, result_sets = copies_of(inputs, sets), copies_of(results, sets)
    contestants = {
        "copy": Copy(count, sets),
        "epifuse": lambda i: tail(result_sets[i], [input_sets[i][k] for k in order], case.scalars),
    }
    if with_torch:
        torch._dynamo.reset()
        compiled = torch.compile(case.function, fullgraph=True, dynamic=False)
        contestants |= {"compile": Torch(compiled, input_sets), "eager": Torch(case.function, input_sets)}
    problems = {}
    seconds, samples = measure(contestants, sets, launches, options.seconds, problems)
    return record | evaluate(case, count, seconds) | {
        "samples": samples, "launches": launches, "sets": sets, "problems": problems}


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


# ---- the run: a parent that starts workers, and a worker that goes through the cases


class Document:
    """The JSON, written after each change in one step."""

    def __init__(self, path, data):
        self.path, self.data = path, data

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".part")
        draft.write_text(json.dumps(self.data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(self.path)

    def add(self, record):
        self.data["records"].append(record)
        self.data["running"] = None
        self.write()


def nvidia_driver():
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", "0"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def commit():
    given = os.environ.get("EPIFUSE_COMMIT")
    if given:
        return given
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=bridge.ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def open_document(options):
    """The header of this run, and the records of the run that is resumed."""
    import triton
    header = {"device": torch.cuda.get_device_name(0), "driver": nvidia_driver(), "torch": torch.__version__,
              "triton": triton.__version__, "cuda": torch.version.cuda, "epifuse": bridge.system()["version"],
              "nvrtc": bridge.system()["nvrtc"], "commit": commit(),
              "command": " ".join(["bench/reductions.py"] + options.given),
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "copy_gbps": big_copy_bandwidth() * 1e-9, "running": None, "records": []}
    if options.resume and options.resume.exists():
        before = json.loads(options.resume.read_text(encoding="utf-8"))
        for key in ("device", "driver", "torch", "commit"):
            if before[key] != header[key]:
                raise SystemExit(f"reductions.py: cannot resume {options.resume}: its {key} is {before[key]}, "
                                 f"here it is {header[key]}")
        header |= {key: before[key] for key in ("date", "copy_gbps")}
        header["records"] = before["records"]
        if before["running"]:
            header["records"].append(before["running"] | {"error": "the process ended in the middle of it"})
    return Document(options.output, header)


def chosen(options):
    cases = [(case, dtype) for case in reductions_cases.ALL if re.search(options.cases, case.name)
             for dtype in case.dtypes if dtype in options.dtypes]
    return [(case, dtype) for case, dtype in cases if largest_bytes(case, dtype) <= options.max_bytes]


def largest_bytes(case, dtype):
    return max(math.prod(operand.shape) * KNOWN_DTYPES[resolved(operand.dtype, dtype)]
               for operand in case.inputs.values())


def is_usable():
    """False after an error that leaves the device unusable for this process."""
    try:
        torch.cuda.synchronize()
        return True
    except Exception:
        return False


def work(options):
    use_torch()
    document = open_document(options)
    done = {(record["case"], record["dtype"]) for record in document.data["records"]}
    todo = chosen(options)
    start = time.monotonic()
    for i, (case, dtype) in enumerate(todo, 1):
        if (case.name, dtype) in done:
            continue
        if time.monotonic() - start > options.budget:
            print(f"out of time with {len(todo) - i + 1} of {len(todo)} to go; --resume continues", flush=True)
            break
        document.data["running"] = record_of(case, dtype)
        document.write()
        with_torch = not options.no_torch and dtype in options.torch_dtypes
        began = time.monotonic()
        broken = False
        try:
            record = run_case(case, dtype, options, with_torch)
        except Exception as problem:
            record = record_of(case, dtype) | {"error": first_line(problem), "detail": str(problem)[:MOST_DETAIL]}
            broken = isinstance(problem, Hang) or not is_usable()
        record["took_seconds"] = time.monotonic() - began
        document.add(record)
        progress = f"[{i:3}/{len(todo)}] {case.name} {dtype}"
        print(f"{progress}: {outcome(record)} ({record['took_seconds']:.1f} s)", flush=True)
        if broken:
            os._exit(RESTART)  # whatever the context holds cannot be freed in order
        if with_torch:
            torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
    bridge.close()
    return FAILED if any("error" in record for record in document.data["records"]) else DONE


def warm(options):
    """Compiles a share of the cases with torch.compile, which keeps its kernels on disk for the run."""
    use_torch()
    index, _, count = options.warm_part.partition("/")
    todo = [(case, dtype) for case, dtype in chosen(options)
            if dtype in options.torch_dtypes and largest_bytes(case, dtype) <= LARGEST_WARMED]
    for case, dtype in todo[int(index)::int(count)]:
        torch._dynamo.reset()
        inputs = [make_operand(case, operand, dtype) for operand in case.inputs.values()]
        try:
            torch.compile(case.function, fullgraph=True, dynamic=False)(*inputs)
            torch.cuda.synchronize()
        except Exception as problem:  # the run itself will meet it and record it
            print(f"warming {case.name} {dtype}: {first_line(problem)}", flush=True)
        del inputs
        torch.cuda.empty_cache()
    return DONE


def call_self(options, *more, **environment):
    command = [sys.executable, __file__, *options.given, *map(str, more)]
    return subprocess.Popen(command, env=os.environ | environment)


def supervise(options):
    start = time.monotonic()
    if options.warm and not options.no_torch:
        parts = [call_self(options, "--warm-part", f"{k}/{options.warm}", TORCHINDUCTOR_COMPILE_THREADS="2")
                 for k in range(options.warm)]
        for part in parts:
            part.wait()
        print(f"compiled ahead in {time.monotonic() - start:.0f} s", flush=True)
    resume = options.resume
    started = time.time()
    while True:
        left = options.budget - (time.monotonic() - start)
        more = ["--worker", "--budget", max(left, 0), *(["--resume", resume] if resume else [])]
        code = call_self(options, *more).wait()
        if code in (DONE, FAILED):
            return code
        if not options.output.exists() or options.output.stat().st_mtime < started:
            return code  # it did not get as far as a case
        print(f"the process ended with {code}; the rest goes on in a new one", flush=True)
        resume = options.output


# ---- without a GPU


def view_of(case, shape, dtype):
    strides, step = [0] * len(shape), 1
    for d in (1, 3, 2, 0) if is_channels_last(case, shape) else range(len(shape) - 1, -1, -1):
        strides[d], step = step, step * shape[d]
    return bridge.View(0, dtype, tuple(shape), tuple(strides))


def dry_run(options):
    failed = 0
    for case, dtype in chosen(options):
        try:
            tail = bridge.Tail(case.text)
            inputs = {name: view_of(case, operand.shape, resolved(operand.dtype, dtype))
                      for name, operand in case.inputs.items()}
            results = [view_of(case, shape, resolved(kind, dtype))
                       for shape, kind in zip(tail.result_shapes(inputs), case.results, strict=True)]
            plan = describe_plan(tail, results, inputs, 90 if options.registers else 0, 0.0)
            print(f"{case.name} {dtype}: {plan['schedule']}; {limit_of(plan)}; {plan['class']}", flush=True)
        except bridge.Error as problem:
            failed += 1
            print(f"{case.name} {dtype}: FAILED: {first_line(problem)}", flush=True)
    return FAILED if failed else DONE


def parse_options():
    listed = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", metavar="REGEX", help="of names; all by default")
    parser.add_argument("--dtypes", type=listed, default=["f32", "f16", "bf16"], help="of f32,f16,bf16")
    parser.add_argument("--torch-dtypes", type=listed, default=["f32", "f16", "bf16"], help="with PyTorch beside")
    parser.add_argument("--no-torch", action="store_true", help="time only the copy and EpiFuse")
    parser.add_argument("--seconds", type=float, default=0.3, help="of samples per case, %(default)s")
    parser.add_argument("--max-bytes", type=float, default=math.inf, help="leave out cases with a larger tensor")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no case begins")
    parser.add_argument("--warm", type=int, default=0, metavar="N", help="processes that run torch.compile ahead")
    parser.add_argument("--output", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("OUT", bridge.ROOT / "build/results")) / "reductions.json")
    parser.add_argument("--resume", type=pathlib.Path, metavar="JSON", help="keep its records, and run the others")
    parser.add_argument("--list", action="store_true", help="print the cases")
    parser.add_argument("--dry-run", action="store_true", help="print the plans, without a GPU")
    parser.add_argument("--registers", action="store_true", help="compile in the dry run too (NVRTC)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--warm-part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    given = sys.argv[1:]
    options.given = given[:given.index("--worker")] if options.worker else given
    return options


def main():
    options = parse_options()
    if options.list:
        for case, dtype in chosen(options):
            print(f"{case.name} {dtype}: {case.text}")
        return DONE
    for flag, action in ((options.dry_run, dry_run), (options.worker, work), (options.warm_part, warm)):
        if flag:
            return action(options)
    return supervise(options)


if __name__ == "__main__":
    sys.exit(main())
