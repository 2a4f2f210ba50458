#!/usr/bin/env python3
"""Runs the examples in all their variants on the GPU at hand and collects what they measured in one record file.

    bench/examples.py --binaries build/examples --output examples.json

The binaries may have been built on another machine: cuDNN, cuBLASLt and NVRTC are looked for in a toolkit, with the
distribution and in NVIDIA's Python wheels. A wrong result is in the record, and makes the exit code 1.
"""

import argparse
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import record

WANTED = {"libcudnn.so.9", "libcublasLt.so.13", "libnvrtc.so.13"}  # beside what the binaries name
PLACES = (
    "/usr/local/cuda/lib64",
    "/usr/local/cuda-*/lib64",
    "/usr/lib/x86_64-linux-gnu",
    ".venv/lib/python3*/site-packages/nvidia/*/lib",
    "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
)
COMMON = ("device", "driver", "cuda_runtime", "epifuse")  # one value in all records of a run: it goes to the head


def programs(folder):
    return sorted(path for path in folder.glob("example_*") if path.is_file() and os.access(path, os.X_OK))


def expected():
    """The examples that there are, by their sources."""
    return sorted(source.stem for source in (record.ROOT / "examples").glob("example_*.cpp"))


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def needed(binaries):
    """Names of the CUDA libraries that the binaries are linked with, and of those that are opened at run time."""
    lines = "".join(output("readelf", "-d", binary) for binary in binaries)
    return sorted(WANTED | set(re.findall(r"NEEDED.*\[(libcu[^\]]*)\]", lines)))


def library_path(binaries):
    """LD_LIBRARY_PATH with the folders of what the loader does not know."""
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder]
    known = output("ldconfig", "-p")
    for name in needed(binaries):
        if f"{name} " in known:
            continue
        found = [
            folder
            for place in (*folders, *PLACES)
            for folder in sorted(glob.glob(place))
            if os.path.exists(os.path.join(folder, name))
        ]
        print(f"{name}: {found[0] if found else 'not found'}")
        folders += [os.path.realpath(folder) for folder in found[:1] if os.path.realpath(folder) not in folders]
    return os.pathsep.join(folders)


def one_value(records, key):
    values = {found[key] for found in records}
    if len(values) != 1:
        found = ", ".join(sorted(values)) or "none at all"
        raise SystemExit(f"examples.py: expected one {key} in all records, found {found}; are they of one run?")
    return values.pop()


def collected(records, command=None):
    """The document of the lines that the programs wrote."""
    common = {key: one_value(records, key) for key in COMMON}
    libraries = dict(found["library"].split(" ", 1) for found in records)
    versions = {
        "epifuse": common["epifuse"],
        "cuda_driver": common["driver"],
        "cuda_runtime": common["cuda_runtime"],
        **dict(sorted(libraries.items())),
    }
    return record.made(
        "examples",
        device=common["device"],
        driver=record.asked_of_gpu("driver_version"),
        versions=versions,
        command=command,
        records=[{key: value for key, value in found.items() if key not in COMMON} for found in records],
    )


def dry_run(binaries):
    missing = [name for name in expected() if name not in {binary.name for binary in binaries}]
    for binary in binaries:
        libraries = re.findall(r"NEEDED.*\[([^]]*)\]", output("readelf", "-d", binary))
        print(f"{binary.name}: needs {', '.join(libraries) or 'no library'}")
    if missing:
        print(f"not there: {', '.join(missing)}")
    library_path(binaries)
    return 1 if missing else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=record.ROOT / "build/examples")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--size", choices=["full", "small"], default=os.environ.get("EPIFUSE_EXAMPLE_SIZE", "full"))
    parser.add_argument(
        "--dry-run", action="store_true", help="what needs no GPU: are all of them there, and what do they need"
    )
    options = parser.parse_args()
    binaries = programs(options.binaries)
    if not binaries:
        raise SystemExit(f"examples.py: no examples in {options.binaries}; build them, or name their folder")
    if options.dry_run:
        return dry_run(binaries)
    failed = []
    environment = os.environ | {"LD_LIBRARY_PATH": library_path(binaries)}
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder) / "records.jsonl"
        for binary in binaries:
            if subprocess.run(
                [binary, "--size", options.size, "--json", lines], env=environment, check=False
            ).returncode:
                failed.append(binary.name)
        records = (
            [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()] if lines.exists() else []
        )
    if not records:
        raise SystemExit("examples.py: no example ran")
    if options.output:
        record.write(options.output, collected(records, " ".join(["bench/examples.py", *sys.argv[1:]])))
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
