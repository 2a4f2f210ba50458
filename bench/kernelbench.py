#!/usr/bin/env python3
r"""Problems of KernelBench, unmodified, as PyTorch runs them, as torch.compile's default does, and with EpiFuse's
backend: time, kernels, what was fused.

    python3 bench/kernelbench.py KernelBench/                       # a checkout: the odd problems of level 2
    python3 bench/kernelbench.py KernelBench/ --level 1 --problems 19,20,21 --dtypes f16
    python3 bench/kernelbench.py --rebuilt                          # no checkout: models rebuilt from bench/level2.py
    python3 bench/kernelbench.py --rebuilt --level 1,2 --small --device cpu --contestants epifuse --seconds 0 \
        --dtypes f32,f16,bf16 --output tests/reports/kernelbench-small.json   # no GPU: what becomes a kernel, and is it right

Models run as they are constructed, in training mode under torch.no_grad, as KernelBench runs them: batch norms take
the statistics of the batch. --eval gives inference. Random numbers have one seed. Every result is checked against eager's (is_right() says how). Times are medians of
CUDA events around whole calls of the model that are queued before the GPU gets to them, the contestants in turn; on the
CPU (--device cpu, for tests) the wall clock. The table of what --output takes is made by tables.py.
"""

import argparse
import collections
import copy
import gc
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import level1
import level2
import markdown
import record as record_file
import table_models

CONTESTANTS = (
    "eager",
    "compile",
    "epifuse",
    "plain",
)  # plain: EpiFuse with eager PyTorch for what is not fused; not among the default ones
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
# Of the largest magnitude, what a result may differ from eager's without a closer look: f16 and bf16 round after every
# operation there, once here.
TOLERANCES = {"f32": 1e-3, "f16": 2e-2, "bf16": 1e-1}
REBUILT = {1: level1, 2: level2}
FEWEST_SAMPLES = 11
SEED = 42
# What the GPU waits before each call, some 1.5 ms, so that the call is queued as a whole by then: what the GPU takes
# is timed, and not how
# fast the CPU of this machine queues it (that is bench/python_overhead.py's).
AHEAD_CYCLES = 2_500_000

torch = None


def problems_of(path, level, wanted):
    """[(name, file)] of a checkout, a folder of problems, or one file, by number: those wanted; without a wish the odd
    ones, and of level 1 those that bench/level1.py has."""
    path = pathlib.Path(path)
    if path.is_file():
        return [(path.stem, path)]
    folders = [path / "KernelBench" / f"level{level}", path / f"level{level}", path]
    found = []
    for folder in folders:
        found = [
            (int(match[1]), file)
            for file in folder.glob("*.py")
            if (match := re.match(r"(?:level\d+_)?(\d+)", file.stem))
        ]
        if found:
            break
    if not found:
        raise SystemExit(
            f"kernelbench.py: no problems in {path}: expected a checkout of KernelBench, a folder of its problems, "
            "or one of its files"
        )
    usual = (lambda number: number in level1.PROBLEMS) if level == 1 else (lambda number: number % 2)
    chosen = [one for one in sorted(found) if (one[0] in wanted if wanted else usual(one[0]))]
    return [(file.stem, file) for _, file in chosen]


def rebuilt(folder, level, small, wanted):
    """A folder of the level's problems that stand in bench/."""
    problems = REBUILT[level]
    folder = folder / f"level{level}"
    folder.mkdir(parents=True, exist_ok=True)
    for number, problem in problems.PROBLEMS.items():
        if not wanted or number in wanted:
            # Of level 2 these names are those of the records.
            name = f"{number}_{problem.name}" if level == 1 else f"{number}_rebuilt"
            (folder / f"{name}.py").write_text(problems.text(number, small))
    return folder


def chosen(options, scratch):
    """The problems' names and files; those that are rebuilt are written first."""
    found = []
    for level in options.level:
        path = options.path
        if options.rebuilt:
            path = rebuilt(options.folder or scratch, level, options.small, options.problems)
        found += problems_of(path, level, options.problems)
    return found


def load(file, dtype, device, training):
    """The model and its inputs, made where they will run."""
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    torch.manual_seed(SEED)
    with torch.device(device):
        model = names["Model"](*names["get_init_inputs"]()).train(training).to(device=device, dtype=dtype)
        inputs = [
            one.to(device=device, dtype=dtype) if isinstance(one, torch.Tensor) and one.is_floating_point() else one
            for one in names["get_inputs"]()
        ]
    return model, inputs


def contestant(name, model):
    if name == "eager":
        return model
    if name == "compile":
        return torch.compile(model)
    return torch.compile(model, backend="epifuse", options={"producers": "eager"} if name == "plain" else None)


def difference(found, expected):
    """The largest difference over the largest magnitude; infinite where only one is NaN or the shapes differ."""
    if isinstance(expected, (tuple, list)):
        return max(difference(a, b) for a, b in zip(found, expected))
    if found.shape != expected.shape:
        return float("inf")
    worst, largest = 0.0, 0.0
    for a, b in zip(found.reshape(-1).split(2**26), expected.reshape(-1).split(2**26)):
        a, b = a.float(), b.float()
        off = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
        worst = max(worst, torch.where(off.isnan(), float("inf"), off).max().item())
        largest = max(largest, b.abs().nan_to_num(0, 0, 0).max().item())
    return worst / max(largest, 1e-6)


def in_f64(model, inputs):
    """Eager's result of the same numbers in f64."""
    wide = copy.deepcopy(model).double()
    torch.manual_seed(SEED)
    return wide(*(one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in inputs))


def stored_as(like, exact):
    if isinstance(exact, (tuple, list)):
        return [stored_as(a, b) for a, b in zip(like, exact)]
    return exact.to(like.dtype)


def is_right(result, expected, dtype, exact):
    """Right is a result within TOLERANCES of eager's. Where numbers cancel to nothing (the mean of what a norm made)
    the largest of them says nothing of those that were added: a result that differs by more is compared with eager's in
    f64, which `exact` gives. It must be no further from that than twice what eager's in the type is: two sums in other
    orders differ by as much again."""
    if difference(result, expected) <= TOLERANCES[dtype]:
        return True
    truth = exact()
    return distance(result, truth) <= 2 * distance(expected, truth)


def distance(found, truth):
    """The largest absolute difference; infinite where only one is NaN or the shapes differ."""
    if isinstance(truth, (tuple, list)):
        return max(distance(a, b) for a, b in zip(found, truth))
    if found.shape != truth.shape:
        return float("inf")
    off = (found.double() - truth).abs()
    return torch.where(found.double() == truth, 0.0, off).nan_to_num(float("inf"), float("inf")).max().item()


def count_kernels(run, inputs, device):
    """Kernels that one call puts on the GPU; None on the CPU."""
    if device != "cuda":
        return None
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        run(*inputs)
        torch.cuda.synchronize()
    return sum(
        1
        for event in found.events()
        if event.device_type.name == "CUDA" and not event.name.startswith(("Memcpy", "Memset"))
    )


def sample(runs, inputs, seconds, device):
    """Seconds of calls, contestants in turn."""
    times = collections.defaultdict(list)
    deadline = time.monotonic() + seconds
    while runs and seconds and (min(len(times[name]) for name in runs) < FEWEST_SAMPLES or time.monotonic() < deadline):
        events = []
        for name, run in runs.items():
            if device == "cuda":
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                torch.cuda._sleep(AHEAD_CYCLES)
                begin.record()
                run(*inputs)
                end.record()
                events.append((name, begin, end))
            else:
                start = time.perf_counter()
                run(*inputs)
                times[name].append(time.perf_counter() - start)
        if device == "cuda":
            torch.cuda.synchronize()
            for name, begin, end in events:
                times[name].append(begin.elapsed_time(end) * 1e-3)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def measure(name, file, dtype, options):
    import epifuse

    record = {"problem": name, "dtype": dtype}
    torch._dynamo.reset()  # forgets the compiled code of the problem before, and its memory
    model, inputs = load(file, getattr(torch, DTYPES[dtype]), options.device, not options.eval)
    runs, expected, wrong = {}, None, []
    for one in CONTESTANTS:
        if one not in options.contestants:
            continue
        try:
            before = len(epifuse.reports())
            call = contestant(one, model)
            torch.manual_seed(SEED)
            begin = time.monotonic()
            result = call(*inputs)
            if options.device == "cuda":
                torch.cuda.synchronize()
            record[f"{one}_first_s"] = round(time.monotonic() - begin, 3)
            if one == "eager":
                expected = result
            else:
                if expected is None:  # PyTorch lacks the operation for the type on the CPU
                    expected = stored_as(result, in_f64(model, inputs))
                record[f"{one}_difference"] = difference(result, expected)
                if not is_right(result, expected, dtype, lambda: in_f64(model, inputs)):
                    wrong.append(one)
            if one == "epifuse":
                graphs = epifuse.reports()[before:]
                record["fused"] = [names for graph in graphs for names in graph.fused]
                record["chains"] = [chain for graph in graphs for chain in graph.kernels]
                record["left"] = {
                    f"{operation}: {why}": count for graph in graphs for (operation, why), count in graph.left.items()
                }
                record["producers"] = [graph.producers for graph in graphs]
                record["layouts"] = [graph.layouts for graph in graphs]
                record["fallback"] = "; ".join(graph.fallback for graph in graphs if graph.fallback)
            del result
            runs[one] = call
        except Exception as problem:
            record[f"{one}_error"] = f"{type(problem).__name__}: {str(problem).strip()}"[:2000]
    del expected
    for one, run in runs.items():
        try:
            record[f"{one}_kernels"] = count_kernels(run, inputs, options.device)
        except RuntimeError as problem:  # no profiler: the times still count
            record["kernels_error"] = str(problem)[:300]
    for one, seconds in sample(runs, inputs, options.seconds, options.device).items():
        record[f"{one}_ms"] = seconds * 1e3
    record["wrong"] = wrong
    record["right"] = "epifuse" in runs and not {"epifuse", "plain"} & set(wrong)
    return record


def line_of(record):
    """The table's row of one record."""
    return markdown.cells(table_models.KERNELBENCH_COLUMNS, None, record)


def document_of(options, skipped, records):
    import epifuse

    on_gpu = options.device == "cuda"
    return record_file.made(
        "kernelbench",
        device=torch.cuda.get_device_name() if on_gpu else "CPU",
        driver=record_file.asked_of_gpu("driver_version") if on_gpu else None,
        versions={"torch": torch.__version__, "epifuse": epifuse.__version__},
        command=" ".join(["bench/kernelbench.py", *options.given]),
        settings={"mode": "eval" if options.eval else "training", "skipped": skipped},
        records=records,
    )


def dry_run(files, options):
    """Without a GPU: every problem compiles; with PyTorch, its model takes its inputs to a result, without memory."""
    try:
        import torch as found
    except ImportError:
        found = None
    for name, file in files:
        names = {}
        program = compile(file.read_text(), str(file), "exec")
        if found is None:
            print(f"{name}: compiles")
            continue
        exec(program, names)
        with found.device("meta"), found.no_grad():
            model = names["Model"](*names["get_init_inputs"]()).train(not options.eval)
            result = model(*names["get_inputs"]())
        print(f"{name}: {list(result.shape)}", flush=True)
    if found is None:
        print("without PyTorch: no model was made")


def warm(files, options):
    """Fills the caches of kernels, `--warm` processes at a time: compiles take most of the time, and a core each."""
    waiting = [(file, dtype) for _, file in files for dtype in options.dtypes]
    shares = [waiting[i :: options.warm] for i in range(options.warm)]
    workers = [
        subprocess.Popen(
            [
                sys.executable,
                __file__,
                "--compile-only",
                *(f"{file}:{dtype}" for file, dtype in share),
                "--device",
                options.device,
                "--contestants",
                ",".join(options.contestants),
                *(["--eval"] if options.eval else []),
            ],
            env=os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"},
        )
        for share in shares
        if share
    ]
    for worker in workers:
        worker.wait()


def compile_only(pairs, options):
    for pair in pairs:
        file, dtype = pair.rsplit(":", 1)
        try:
            model, inputs = load(pathlib.Path(file), getattr(torch, DTYPES[dtype]), options.device, not options.eval)
            for one in options.contestants[1:]:
                torch._dynamo.reset()
                contestant(one, model)(*inputs)
        except Exception as problem:
            print(f"{pair}: {type(problem).__name__}: {str(problem)[:200]}", file=sys.stderr)
        model = inputs = None
        release(options.device)


def release(device):
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", help="a checkout of KernelBench, a folder of problems, or one problem")
    parser.add_argument(
        "--rebuilt", action="store_true", help="models of bench/level1.py and level2.py instead of a checkout"
    )
    parser.add_argument("--small", action="store_true", help="with --rebuilt: small shapes, for tests")
    parser.add_argument(
        "--level", type=lambda text: [int(one) for one in text.split(",")], default=[2], help="1, 2, or 1,2; by default 2"
    )
    parser.add_argument(
        "--problems",
        type=lambda text: [int(one) for one in text.split(",")],
        default=[],
        help="numbers; by default the odd ones",
    )
    parser.add_argument(
        "--dtypes", type=lambda text: text.split(","), default=["f32", "f16"], help=f"of {', '.join(DTYPES)}"
    )
    parser.add_argument(
        "--contestants",
        type=lambda text: text.split(","),
        default=list(CONTESTANTS[:3]),
        help=f"of {', '.join(CONTESTANTS)}; eager always runs",
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--eval", action="store_true", help="inference: batch norms take their running statistics")
    parser.add_argument("--seconds", type=float, default=0.3, help="of timing per problem and type; 0: nothing is timed")
    parser.add_argument(
        "--budget", type=float, default=float("inf"), help="seconds after which no further problem begins"
    )
    parser.add_argument("--warm", type=int, default=0, help="so many processes fill the caches of kernels first")
    parser.add_argument("--warm-only", action="store_true", help="and nothing else")
    parser.add_argument(
        "--folder",
        type=pathlib.Path,
        help="where --rebuilt writes its files (torch.compile's cache knows them by name)",
    )
    parser.add_argument("--output", type=pathlib.Path, help="the record file, written after each problem")
    parser.add_argument(
        "--dry-run", action="store_true", help="what needs no GPU: the problems' text, and their models without memory"
    )
    parser.add_argument("--compile-only", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.given = sys.argv[1:] if arguments is None else list(arguments)
    if not options.path and not options.rebuilt and options.compile_only is None:
        parser.error("expected a path, or --rebuilt")
    options.contestants = ["eager", *(one for one in options.contestants if one != "eager")]
    return options


def main(arguments=None):
    global torch
    options = parse(arguments)
    if options.dry_run:
        with tempfile.TemporaryDirectory() as scratch:
            return dry_run(chosen(options, pathlib.Path(scratch)), options)
    import torch as imported

    torch = imported
    with torch.no_grad():
        return run(options)


def run(options):
    begin = time.monotonic()
    if options.compile_only is not None:
        return compile_only(options.compile_only, options)
    with tempfile.TemporaryDirectory() as scratch:
        files = chosen(options, pathlib.Path(scratch))
        if options.warm:
            warm(files, options)
        if options.warm_only:
            return None
        records, skipped = [], []
        for name, file in files:
            for dtype in options.dtypes:
                if time.monotonic() - begin > options.budget:
                    skipped.append(f"{name} {dtype}")
                    continue
                try:
                    record = measure(name, file, dtype, options)
                except Exception as problem:  # a model that does not fit, or cannot run in this type
                    record = {
                        "problem": name,
                        "dtype": dtype,
                        "right": False,
                        "eager_error": f"{type(problem).__name__}: {problem}"[:2000],
                    }
                records.append(record)
                print(line_of(record), flush=True)
                release(options.device)
                if options.output:
                    record_file.write(options.output, document_of(options, skipped, records))
        document = document_of(options, skipped, records)
        if options.output:
            record_file.write(options.output, document)
    for _, notes in table_models.kernelbench_notes(document):
        print("\n".join(notes))
    return document


if __name__ == "__main__":
    found = main()
    sys.exit(bool(found) and not all(record["right"] for record in found["records"]))
