#!/usr/bin/env python3
"""What a call from Python costs before the kernel runs: four tensors of a few elements, EpiFuse beside PyTorch's
jiterator, CuPy's ElementwiseKernel, one operation of PyTorch and a compiled graph; and calls that autograd records, with
and without their backward pass, beside PyTorch's. On the CPU device (no GPU, or --device cpu) the kernel is part of the
call; --elements 0 leaves the call alone.

    python3 bench/python_overhead.py --output overhead.json

Microseconds per call: the median of batches of back-to-back calls, each waited for at its end and small enough for the
queue to hold, and the best batch. Beside them, in a process of its own, what of EpiFuse's calls is NVIDIA's
cuLaunchKernel (timed_driver.cpp, built with c++): the rest is from the call in Python to the launch, and back.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import record

torch = epifuse = None  # set by main(): a dry run goes without them

CALLS, BATCHES = 256, 60
CHAIN = "relu(a + b) * c + d"
TAIL = f"input a, b, c, d; {CHAIN}"


def microseconds(calls, wait):
    """The contestants' batches in turn, so that all of them see the same machine."""
    for call in calls.values():
        for _ in range(2 * CALLS):
            call()
        wait()
    batches = {name: [] for name in calls}
    for _ in range(BATCHES):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(CALLS):
                call()
            batches[name].append((time.perf_counter() - begin) / CALLS * 1e6)
            wait()
    return {name: {"median_us": statistics.median(found), "best_us": min(found)} for name, found in batches.items()}


def timed_driver(folder):
    """timed_driver.cpp as a library that needs libcuda.so.1: linked against an empty library of that name."""
    source = pathlib.Path(__file__).with_name("timed_driver.cpp")
    build = [os.environ.get("CXX", "c++"), "-O2", "-std=c++17", "-shared", "-fPIC"]
    name, library = folder / "libcuda.so.1", folder / "libtimed_driver.so"
    subprocess.run([*build, "-x", "c++", os.devnull, "-Wl,-soname,libcuda.so.1", "-o", name], check=True)
    subprocess.run([*build, source, "-Wl,--no-as-needed", name, "-ldl", "-o", library], check=True)
    name.unlink()  # the real one is found where the loader finds it
    return library


def launch_apart(elements):
    """By call, microseconds of it, of cuLaunchKernel within it, and of the rest: from another process."""
    with tempfile.TemporaryDirectory() as folder:
        library = timed_driver(pathlib.Path(folder))
        command = [sys.executable, __file__, "--apart", str(library), "--elements", str(elements)]
        environment = os.environ | {"EPIFUSE_LIBCUDA": str(library)}
        return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def measure_apart(calls, library, wait):
    """In that process."""
    driver = ctypes.CDLL(library)
    driver.timed_driver_spent_us.restype = ctypes.c_double
    count = ctypes.c_size_t()
    found = {}
    for name, call in calls.items():
        batches = []
        for batch in range(-2, BATCHES):
            driver.timed_driver_spent_us(ctypes.byref(count))
            begin = time.perf_counter()
            for _ in range(CALLS):
                call()
            whole = (time.perf_counter() - begin) / CALLS * 1e6
            inside = driver.timed_driver_spent_us(ctypes.byref(count)) / CALLS
            if count.value != CALLS:
                raise RuntimeError(f"{count.value} launches of {CALLS} calls")
            wait()
            if batch >= 0:
                batches.append((whole, inside, whole - inside))
        whole, inside, rest = (statistics.median(column) for column in zip(*batches))
        found[name] = {"median_us": whole, "cuLaunchKernel_us": inside, "rest_us": rest}
    return found


def jiterator(a, b, c, d):
    from torch.cuda.jiterator import _create_jit_fn

    function = _create_jit_fn(
        "template <typename T> T tail(T a, T b, T c, T d) { T t = a + b; return (t > T(0) ? t : T(0)) * c + d; }"
    )
    return lambda: function(a, b, c, d)


def cupy_kernel(a, b, c, d):
    import cupy

    arrays = [cupy.asarray(one) for one in (a, b, c, d)]
    kernel = cupy.ElementwiseKernel("T a, T b, T c, T d", "T y", "T t = a + b; y = (t > 0 ? t : 0) * c + d", "epilogue")
    return lambda: kernel(*arrays)


def dry_run():
    """Without a GPU: the table's clock is built; with PyTorch and the package, a tail is called on the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        print(f"built {timed_driver(pathlib.Path(folder)).name}")
    try:
        import torch

        import epifuse
    except ImportError as problem:
        return print(f"no call was made: {problem}")
    print(epifuse.compile(TAIL)(*(torch.randn(4) for _ in range(4))))


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], help="the GPU where there is one")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--elements", type=int, default=16, help="of each tensor")
    parser.add_argument("--dry-run", action="store_true", help="what needs no GPU")
    parser.add_argument("--apart", help=argparse.SUPPRESS)  # the library, in the other process
    return parser.parse_args()


def step_of(function, *operands):
    """A call that autograd records, and its backward pass: gradients of all operands."""
    leaves = [one.clone().requires_grad_() for one in operands]
    with torch.enable_grad():
        weights = torch.ones_like(function(*leaves))

    def step():
        with torch.enable_grad():
            torch.autograd.grad(function(*leaves), leaves, weights)

    return step


def recorded_of(function, *operands):
    """Its first half."""
    leaves = [one.clone().requires_grad_() for one in operands]

    def call():
        with torch.enable_grad():
            function(*leaves)

    return call


def trained_calls(tail, *operands):
    """Calls that autograd records, with and without a backward pass, beside PyTorch's."""
    norm, rows = epifuse.compile("input x, w, b; gelu(layer_norm(x, w, b))"), (operands[0].expand(8, -1).clone(), *operands[1:3])

    def eager(a, b, c, d):
        return torch.relu(a + b) * c + d

    def eager_norm(x, w, b):
        return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, w.shape, w, b))

    found = {}
    for name, ours, theirs, given in (("", tail, eager, operands), (", norm", norm, eager_norm, rows)):
        found |= {
            f"epifuse, recorded{name}": lambda ours=ours, given=given: recorded_of(ours, *given),
            f"PyTorch, recorded{name}": lambda theirs=theirs, given=given: recorded_of(theirs, *given),
            f"epifuse, with backward{name}": lambda ours=ours, given=given: step_of(ours, *given),
            f"PyTorch, with backward{name}": lambda theirs=theirs, given=given: step_of(theirs, *given),
        }
    return found


def calls_of(device, tail, a, b, c, d, out):
    """Contestants by name, each as a function that makes its call."""
    compiled = torch.compile(lambda a, b, c, d: torch.relu(a + b) * c + d, backend="epifuse")
    calls = {
        "epifuse": lambda: lambda: tail(a, b, c, d),
        "epifuse, out=": lambda: lambda: tail(a, b, c, d, out=out),
        "epifuse, by name": lambda: lambda: tail(a=a, b=b, c=c, d=d),
        "torch.compile, backend epifuse": lambda: lambda: compiled(a, b, c, d),
        "torch.add": lambda: lambda: torch.add(a, b),
        "the same in PyTorch, 4 kernels": lambda: lambda: torch.relu(a + b) * c + d,
    }
    calls |= trained_calls(tail, a, b, c, d)
    if device == "cuda":
        calls |= {
            "jiterator": lambda: jiterator(a, b, c, d),
            "CuPy ElementwiseKernel": lambda: cupy_kernel(a, b, c, d),
            "torch.compile, default": lambda: (
                lambda run=torch.compile(lambda a, b, c, d: torch.relu(a + b) * c + d): run(a, b, c, d)
            ),
        }
    return calls


def measured(calls, wait):
    """Records of all calls in one process; one that cannot be made says why."""
    ready, failed = {}, {}
    for name, make in calls.items():
        try:
            ready[name] = make()
            ready[name]()
        except Exception as problem:
            ready.pop(name, None)
            failed[name] = {"error": f"{type(problem).__name__}: {str(problem)[:300]}"}
    found = failed | microseconds(ready, wait)
    return [{"call": name, "process": "shared", **found[name]} for name in calls]


def line_of(record):
    name = f"  {record['call'] + (', apart' if record['process'] == 'apart' else ''):32} "
    if "error" in record:
        return name + record["error"][:90]
    if record["process"] == "apart":
        inside, rest = record["cuLaunchKernel_us"], record["rest_us"]
        return f"{name}{record['median_us']:7.2f}: in cuLaunchKernel {inside:.2f}, the rest {rest:.2f}"
    return f"{name}{record['median_us']:7.2f}  best {record['best_us']:7.2f}"


def main():
    global torch, epifuse
    options = parsed()
    if options.dry_run:
        return dry_run()
    import torch as found_torch

    import epifuse as found_epifuse

    torch, epifuse = found_torch, found_epifuse
    torch.set_grad_enabled(False)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    a, b, c, d = (torch.randn(options.elements, device=device) for _ in range(4))
    out = torch.empty_like(a)
    tail = epifuse.compile(TAIL)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    if options.apart:
        ours = {"epifuse": lambda: tail(a, b, c, d), "epifuse, out=": lambda: tail(a, b, c, d, out=out)}
        return print(json.dumps(measure_apart(ours, options.apart, wait)))
    records = measured(calls_of(device, tail, a, b, c, d, out), wait)
    if device == "cuda":
        records += [
            {"call": name, "process": "apart", **found} for name, found in launch_apart(options.elements).items()
        ]
    document = record.made(
        "python-overhead",
        device=torch.cuda.get_device_name() if device == "cuda" else "CPU",
        driver=record.asked_of_gpu("driver_version") if device == "cuda" else None,
        versions={"epifuse": epifuse.__version__, "torch": torch.__version__},
        command=" ".join(["bench/python_overhead.py", *sys.argv[1:]]),
        settings={"elements": options.elements, "chain": CHAIN},
        records=records,
    )
    print(
        f"{document['device']}, PyTorch {torch.__version__}: {CHAIN} of four tensors of {options.elements} elements, "
        "microseconds per call"
    )
    print("\n".join(map(line_of, records)))
    if options.output:
        record.write(options.output, document)
    return None


if __name__ == "__main__":
    main()
