#!/usr/bin/env python3
"""The CPU device beside NumPy, in one run: sigmoid((x + bias) * scale) on 64M f32 elements.

usage: bench/cpu_device.py [--epifuse build/tools/epifuse] [--output bench/results/cpu-device.json]

Both read the same .npy files; the results are compared before anything is timed. NumPy is timed as people write the
expression; the CPU device by `epifuse bench --json`, all cores. Medians, alternating, so that both see the same machine.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

CHAIN = "sigmoid((x + bias) * scale)"
ELEMENTS = 64 * 1000 * 1000
ROUNDS = 5


def numpy_sigmoid(x, bias, scale):
    return 1 / (1 + np.exp(-((x + bias) * scale)))


def epifuse_ms(tool, files):
    command = [tool, "bench", CHAIN, *[f"{name}=@{path}" for name, path in files.items()], "--device", "cpu", "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report["seconds"] * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epifuse", default="build/tools/epifuse")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()

    random = np.random.default_rng(7)
    operands = {
        "x": random.standard_normal(ELEMENTS, dtype=np.float32),
        "bias": random.standard_normal(1, dtype=np.float32),
        "scale": random.standard_normal(1, dtype=np.float32),
    }
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, values in operands.items():
            files[name] = os.path.join(folder, name + ".npy")
            np.save(files[name], values)
        result = os.path.join(folder, "y.npy")
        run = [options.epifuse, "run", CHAIN, *[f"{n}=@{p}" for n, p in files.items()], "--device", "cpu", "-o", result]
        subprocess.run(run, check=True, capture_output=True)
        expected = numpy_sigmoid(*operands.values())
        error = float(np.max(np.abs(np.load(result) - expected)))
        if not error < 1e-6:
            sys.exit(f"the results differ by {error}")
        del expected

        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(epifuse_ms(options.epifuse, files))
            start = time.perf_counter()
            numpy_sigmoid(*operands.values())
            theirs.append((time.perf_counter() - start) * 1e3)

    report = {
        "chain": CHAIN,
        "elements": ELEMENTS,
        "dtype": "f32",
        "epifuse_ms": statistics.median(ours),
        "numpy_ms": statistics.median(theirs),
        "speedup": statistics.median(theirs) / statistics.median(ours),
        "largest_difference": error,
        "cores": os.cpu_count(),
        "machine": platform.processor() or platform.machine(),
        "numpy": np.__version__,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }
    print(f"{CHAIN} on {ELEMENTS / 1e6:.0f}M f32 elements, {report['cores']} cores")
    print(f"  EpiFuse, CPU device  {report['epifuse_ms']:8.1f} ms")
    print(f"  NumPy {report['numpy']:<14} {report['numpy_ms']:8.1f} ms")
    print(f"  {report['speedup']:.2f} times as fast")
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
