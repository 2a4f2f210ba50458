#!/usr/bin/env python3
"""The CPU device beside NumPy, in one run: sigmoid((x + bias) * scale) on 64M f32 elements.

usage: bench/cpu_device.py [--epifuse build/tools/epifuse] [--output bench/results/cpu-device.json] [--dry-run]

Both read the same .npy files; the results are compared before anything is timed. NumPy is timed as people write the
expression; the CPU device by `epifuse bench --json`, all cores. Medians, alternating, so that both see the same
machine.
"""

import argparse
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

import record

CHAIN = "sigmoid((x + bias) * scale)"
ELEMENTS = 64 * 1000 * 1000
ROUNDS = 5


def numpy_sigmoid(x, bias, scale):
    return 1 / (1 + np.exp(-((x + bias) * scale)))


def epifuse_ms(tool, files):
    command = [tool, "bench", CHAIN, *[f"{name}=@{path}" for name, path in files.items()], "--device", "cpu", "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report["seconds"] * 1e3


def operands(elements):
    random = np.random.default_rng(7)
    return {
        name: random.standard_normal(count, dtype=np.float32)
        for name, count in (("x", elements), ("bias", 1), ("scale", 1))
    }


def largest_difference(tool, values, files, folder):
    """Of the CPU device's result and NumPy's; SystemExit where they differ."""
    for name, array in values.items():
        np.save(files[name], array)
    result = os.path.join(folder, "y.npy")
    run = [tool, "run", CHAIN, *[f"{name}=@{path}" for name, path in files.items()], "--device", "cpu", "-o", result]
    subprocess.run(run, check=True, capture_output=True)
    error = float(np.max(np.abs(np.load(result) - numpy_sigmoid(*values.values()))))
    if not error < 1e-6:
        sys.exit(f"the results differ by {error}")
    return error


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epifuse", default="build/tools/epifuse")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="compare a few elements, time nothing")
    options = parser.parse_args()

    values = operands(1000 if options.dry_run else ELEMENTS)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        files = {name: os.path.join(folder, name + ".npy") for name in values}
        error = largest_difference(options.epifuse, values, files, folder)
        if options.dry_run:
            return print(f"{CHAIN}: the largest difference of {values['x'].size} elements is {error}")
        for _ in range(ROUNDS):
            ours.append(epifuse_ms(options.epifuse, files))
            start = time.perf_counter()
            numpy_sigmoid(*values.values())
            theirs.append((time.perf_counter() - start) * 1e3)

    found = {
        "chain": CHAIN,
        "elements": ELEMENTS,
        "dtype": "f32",
        "epifuse_ms": statistics.median(ours),
        "numpy_ms": statistics.median(theirs),
        "speedup": statistics.median(theirs) / statistics.median(ours),
        "largest_difference": error,
    }
    settings = {"cores": os.cpu_count(), "machine": platform.processor() or platform.machine()}
    print(f"{CHAIN} on {ELEMENTS / 1e6:.0f}M f32 elements, {settings['cores']} cores")
    print(f"  EpiFuse, CPU device  {found['epifuse_ms']:8.1f} ms")
    print(f"  NumPy {np.__version__:<14} {found['numpy_ms']:8.1f} ms")
    print(f"  {found['speedup']:.2f} times as fast")
    if options.output:
        record.write(
            options.output,
            record.made(
                "cpu-device",
                device="CPU",
                versions={"numpy": np.__version__},
                settings=settings,
                command=" ".join(["bench/cpu_device.py", *sys.argv[1:]]),
                records=[found],
            ),
        )
    return None


if __name__ == "__main__":
    main()
