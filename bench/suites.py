"""The table of the benchmarks' suites: what each measures, needs, runs and writes, and the pages that show it. For
run.py and tables.py.

To add a suite: a row of SUITES, its command in a function beside the others, and for a page a Table in a module
table_*.py."""

import dataclasses
import os
import pathlib
import typing

import record

BENCH = pathlib.Path(__file__).resolve().parent
HALF_THE_CORES = (os.cpu_count() + 1) // 2


@dataclasses.dataclass(frozen=True)
class Result:
    """A record that a suite writes, to OUT and once committed to bench/results: NAME-DEVICE.json where it runs on a
    device, else NAME-VARIANT.json or NAME.json."""

    name: str  # also the record's field "suite"
    variants: tuple = ()  # suffixes, where one record is kept of each
    devices: tuple = ()  # likewise, as record.device_of makes them of the names of the devices that ran it
    table: str | None = None  # MODULE:NAME of its markdown.Table
    pages: dict = dataclasses.field(default_factory=dict)  # device -> the page that holds its table
    picture: str | None = None  # with {device} in its name

    def files(self):
        return [f"{self.name}-{suffix}.json" for suffix in self.variants + self.devices] or [f"{self.name}.json"]

    def picture_of(self, device):
        return self.picture and self.picture.format(device=device)


@dataclasses.dataclass(frozen=True)
class Step:
    """One process of a suite."""

    name: str
    command: list
    seconds: float  # that it may take
    ahead: tuple = ()  # commands whose compiled kernels it finds in the caches; they run before anything is timed
    beside: bool = False  # times nothing: runs while others compile


@dataclasses.dataclass(frozen=True)
class Suite:
    name: str
    what: str
    minutes: int  # the most that it may take; what takes longer is ended
    steps: typing.Callable  # run.Run -> Steps
    needs: tuple = ()  # gpu, torch, numpy, wheel, compute-sanitizer
    targets: tuple = ()  # what ./dev bench builds
    files: tuple = ()  # of a build folder, patterns too
    results: tuple = ()

    def needs_gpu(self):
        return "gpu" in self.needs


def script(run, name, *arguments):
    return [run.python, str(BENCH / name), *map(str, arguments), *run.arguments]


# ---- what the suites run


def timed(name):
    """Peers are compiled ahead by half of the cores."""

    def steps(run):
        command = script(run, f"{name.replace('-', '_')}.py")
        if run.dry:
            yield Step(name, [*command, "--dry-run"], run.minutes * 60)
            return
        output = ["--output", str(run.record(name))]
        ahead = tuple([*command, "--warm-part", f"{k}/{HALF_THE_CORES}"] for k in range(HALF_THE_CORES))
        yield Step(name, [*command, *output, *run.budget()], run.minutes * 60, ahead)

    return steps


def examples(run):
    output = ["--dry-run"] if run.dry else ["--output", run.record("examples")]
    yield Step("examples", script(run, "examples.py", "--binaries", run.build / "examples", *output), run.minutes * 60)


def kernelbench(run):
    command = script(run, "kernelbench.py", "--rebuilt", "--folder", run.scratch)
    if run.dry:
        yield Step("kernelbench", [*command, "--dry-run"], run.minutes * 60)
        return
    ahead = [*command, "--warm", str(HALF_THE_CORES), "--warm-only"]
    yield Step(
        "kernelbench",
        [*command, "--output", str(run.record("kernelbench")), *run.budget()],
        run.minutes * 60,
        (ahead,),
    )


def of_python(run):
    """The suite's own options are those of the first."""
    overhead, tutorial = script(run, "python_overhead.py"), [run.python, str(BENCH / "python_tutorial.py")]
    for name, command in (("python-overhead", overhead), ("python-tutorial", tutorial)):
        output = ["--dry-run"] if run.dry else ["--output", str(run.record(name))]
        yield Step(name, [*command, *output], run.minutes * 30)


def of_cpp(*names):
    """C++ programs that measure what the CPU does, on a GPU or against a stub driver."""

    def steps(run):
        device = "cuda" if run.has_gpu else "stub"
        for name in names:
            path = str(run.record(name.replace("_", "-")))
            output = ["--help"] if run.dry else ["--device", device, "--json", path, *run.arguments]
            yield Step(name, [str(run.build / f"bench/epifuse_bench_{name}"), *output], run.minutes * 60 / len(names))

    return steps


def cpu_device(run):
    output = ["--dry-run"] if run.dry else ["--output", run.out / "cpu-device.json"]
    yield Step(
        "cpu-device", script(run, "cpu_device.py", "--epifuse", run.build / "tools/epifuse", *output), run.minutes * 60
    )


def counted(name):
    """By plans and machine code: nothing is timed."""

    def steps(run):
        output = ["--dry-run"] if run.dry else ["--output", run.record(name)]
        command = script(run, f"{name.replace('-', '_')}.py", "--epifuse", run.build / "tools/epifuse", *output)
        yield Step(name, command, run.minutes * 60, beside=True)

    return steps


def compile_time(run):
    output = ["--dry-run"] if run.dry else ["--output", run.out / f"compile-time-{record.STUB}.json"]
    yield Step(
        "compile-time",
        script(run, "compile_time.py", "--epifuse", run.build / "tools/epifuse", *output),
        run.minutes * 60,
    )


def checkers(run):
    output = ["--dry-run"] if run.dry else ["--output", run.record("checkers")]
    yield Step(
        "checkers",
        script(run, "checkers.py", "--epifuse", run.build / "tools/epifuse", *output),
        run.minutes * 60,
        beside=True,
    )


def gpu_tests(run):
    output = ["--dry-run"] if run.dry else ["--output", run.record("gpu-tests").with_suffix(".txt")]
    yield Step("gpu-tests", script(run, "gpu_tests.py", "--build", run.build, *output), run.minutes * 60, beside=True)


def trust(run):
    more = ["--dry-run"] if run.dry else []
    yield Step("trust", script(run, "trust.py", "--build", run.build, "--out", run.out, *more), run.minutes * 60)


# ---- the table

H200 = "docs/measurements/h200.md"
ON_BOTH = ("h100", "h200", record.STUB)


def counted_suite(name, what, minutes, table, page):
    """One that needs the tool alone, and whose one record has its table in one page."""
    result = Result(name, devices=(record.STUB,), table=f"{table}:TABLE", pages={record.STUB: page})
    return Suite(name, what, minutes, counted(name), targets=("epifuse_tool",), files=("tools/epifuse",), results=(result,))


def package_suite(name, what, table, pages, minutes=8):
    """One that times the Python package on a GPU; package_cases.py says how, and table_package.py has its table. A record for each device of `pages`."""
    result = Result(name, devices=tuple(pages), table=f"table_package:{table}", pages=pages)
    return Suite(
        name,
        what,
        minutes,
        timed(name),
        needs=("gpu", "torch", "wheel"),
        targets=("epifuse_bench_bridge",),
        files=("bench/libepifuse_bench.so",),
        results=(result,),
    )


SUITES = {
    suite.name: suite
    for suite in [
        Suite(
            "pointwise",
            "chains without reductions beside a copy, torch.compile, eager PyTorch, CuPy and kernels by hand",
            20,
            timed("pointwise"),
            needs=("gpu", "torch", "numpy"),
            targets=("epifuse_bench_bridge",),
            files=("bench/libepifuse_bench.so",),
            results=(
                Result(
                    "pointwise",
                    devices=("h100", "h200"),
                    table="table_pointwise:TABLE",
                    pages={"h100": "docs/measurements/pointwise.md", "h200": H200},
                    picture="docs/images/pointwise-{device}.svg",
                ),
            ),
        ),
        Suite(
            "reductions",
            "chains with reductions beside a copy, torch.compile and eager PyTorch",
            20,
            timed("reductions"),
            needs=("gpu", "torch"),
            targets=("epifuse_bench_bridge",),
            files=("bench/libepifuse_bench.so",),
            results=(
                Result(
                    "reductions",
                    devices=("h100", "h200"),
                    table="table_reductions:TABLE",
                    pages={"h100": "docs/measurements/reductions.md", "h200": H200},
                    picture="docs/images/reductions-{device}.svg",
                ),
            ),
        ),
        package_suite(
            "gradients",
            "backward passes of activations, norms and softmax beside a copy, torch.compile and eager PyTorch",
            "GRADIENTS",
            {"h100": "docs/measurements/gradients.md", "h200": H200},
        ),
        package_suite(
            "view-operands",
            "chains that read operands through views beside a copy, torch.compile and eager PyTorch",
            "VIEW_OPERANDS",
            {"h100": "docs/measurements/gradients.md", "h200": H200},
        ),
        package_suite(
            "quantise",
            "quantising tails of a language model beside a copy, torch.compile and eager PyTorch",
            "QUANTISE",
            {"h100": "docs/guide/quantisation.md", "h200": H200},
        ),
        package_suite(
            "products",
            "matrix products that host their chain beside cuBLASLt, with and without a tail, torch.compile and eager PyTorch",
            "PRODUCTS",
            {"h100": "docs/internals/plan/gemm.md", "h200": H200},
            minutes=15,
        ),
        package_suite(
            "product-kinds",
            "norms of whole rows behind products, f32 numbers in TF32 and float8 numbers with scales of blocks, beside the same",
            "PRODUCTS",
            {"h200": H200},
            minutes=8,
        ),
        package_suite(
            "convolutions",
            "convolutions that host their chain beside cuDNN, with and without a tail, torch.compile and eager PyTorch",
            "CONVOLUTIONS",
            {"h100": "docs/internals/plan/gemm.md", "h200": H200},
            minutes=12,
        ),
        Suite(
            "examples",
            "the examples: a cuDNN or cuBLASLt call and its tail, verified, beside a copy",
            5,
            examples,
            needs=("gpu",),
            targets=("epifuse_examples",),
            files=("examples/example_*",),
            results=(
                Result(
                    "examples",
                    devices=("h100", "h200"),
                    table="table_models:EXAMPLES",
                    pages={"h100": "docs/measurements/examples.md", "h200": H200},
                ),
            ),
        ),
        Suite(
            "kernelbench",
            "models of KernelBench level 2: eager, torch.compile's default, EpiFuse's backend",
            20,
            kernelbench,
            needs=("gpu", "torch", "wheel"),
            results=(
                Result(
                    "kernelbench",
                    devices=("h100", "h200"),
                    table="table_models:KERNELBENCH",
                    pages={"h100": "bench/results/kernelbench.md", "h200": H200},
                ),
            ),
        ),
        Suite(
            "python",
            "a call from Python beside other ways to make it, and the tutorial's five models",
            4,
            of_python,
            needs=("gpu", "torch", "wheel"),
            results=(
                Result("python-overhead", devices=("h100", "h200")),
                Result(
                    "python-tutorial",
                    devices=("h100", "h200"),
                    table="table_models:TUTORIAL",
                    pages={"h100": "docs/measurements/python.md", "h200": H200},
                    picture="docs/images/tutorial-{device}.svg",
                ),
            ),
        ),
        Suite(
            "dispatch",
            "what a launch costs the CPU, and each of its parts; against a stub driver where there is no GPU",
            4,
            of_cpp("dispatch", "driver_calls"),
            targets=("epifuse_bench_dispatch", "epifuse_bench_driver_calls"),
            files=("bench/epifuse_bench_dispatch", "bench/epifuse_bench_driver_calls"),
            results=(Result("dispatch", devices=ON_BOTH), Result("driver-calls", devices=("h100", "h200"))),
        ),
        Suite(
            "cold-start",
            "from a new chain to a loaded kernel, compiled or from disk; with a stub driver where there is no GPU",
            4,
            of_cpp("cold_start"),
            targets=("epifuse_bench_cold_start",),
            files=("bench/epifuse_bench_cold_start",),
            results=(Result("cold-start", devices=ON_BOTH),),
        ),
        Suite(
            "compile-time",
            "what NVRTC takes for named kernels, in times of a bare one; their lines, instructions and registers",
            3,
            compile_time,
            targets=("epifuse_tool",),
            files=("tools/epifuse",),
            results=(
                Result(
                    "compile-time",
                    devices=(record.STUB,),
                    table="table_compile:TABLE",
                    pages={record.STUB: "docs/measurements/cold-start.md"},
                ),
            ),
        ),
        Suite(
            "cpu-device",
            "the CPU device beside NumPy",
            5,
            cpu_device,
            needs=("numpy",),
            targets=("epifuse_tool",),
            files=("tools/epifuse",),
            results=(Result("cpu-device"),),
        ),
        counted_suite(
            "gradient-bytes",
            "what backward kernels move beside the least, by their plans",
            2,
            "table_gradients",
            "docs/guide/training.md",
        ),
        counted_suite(
            "product-times",
            "what plans estimate of products that host their chain, beside the times of a record of an H100",
            2,
            "table_product_times",
            "docs/internals/plan/gemm.md",
        ),
        counted_suite(
            "quantise-bytes",
            "what kernels of quantising tails move and spend, by their plans and machine code",
            5,
            "table_quantise",
            "docs/guide/quantisation.md",
        ),
        counted_suite(
            "view-instructions",
            "instructions per element of kernels that read through views, beside kernels by hand, from machine code",
            2,
            "table_views",
            "docs/measurements/views.md",
        ),
        Suite(
            "checkers",
            "every schedule under compute-sanitizer: memory, races, synchronisation, initialisation",
            10,
            checkers,
            needs=("gpu", "compute-sanitizer"),
            targets=("epifuse_tool",),
            files=("tools/epifuse",),
            results=(Result("checkers", devices=("h100", "h200")),),
        ),
        Suite(
            "gpu-tests",
            "the GPU's tests of cases, three processes at once; those of the Python package where there is a wheel",
            10,
            gpu_tests,
            needs=("gpu",),
            targets=("gpu_test",),
            files=("tests/gpu_test",),
        ),
        Suite(
            "trust",
            "the process under attack, random programs on the GPU, the fuzzers",
            120,
            trust,
            needs=("gpu",),
            targets=("process_gpu_test", "epifuse_soak"),
            files=("tests/process_gpu_test", "tests/soak/epifuse_soak"),
            results=(Result("attack", ("cache", "process", "process-gpu")), Result("soak", ("cpu", "gpu"))),
        ),
    ]
}

# Records of other commands than ./dev bench: ./dev trust, ./dev sanitize, ./dev fuzz, and the sweeps of tests/ulp.
OTHERS = (Result("sanitizers"), Result("fuzz"), Result("formulas"), Result("ulp"))


def results():
    return [result for suite in SUITES.values() for result in suite.results] + list(OTHERS)
