#!/usr/bin/env python3
"""The attacks that want a GPU, or many cores: each step writes its record to --out, and has a time of its own.

    bench/trust.py --build build --out FOLDER --steps attack,soak=9,fuzz=300

    attack         process_gpu_test in its long form, four to five minutes      attack-process-gpu.json
    soak=MINUTES   random programs on the GPU, of --seed                        soak-gpu.json
    fuzz=SECONDS   all fuzzers, a process per core                              fuzz-run.json, fuzz-corpora.tar.gz

The fuzzers are in build-fuzz/ (./dev fuzz builds them); what they leave is taken home with `./dev fuzz --collect FOLDER
--merge`.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

import record

ATTACK = record.ROOT / "tests/attack/attack.py"


def attack(options, _):
    command = [sys.executable, ATTACK, "--long", "--report", options.out / "attack-process-gpu.json", "process-gpu"]
    return command, {"ATTACK_BUILD": str(options.build / "tests/attack")}


def soak(options, minutes):
    return [
        options.build / "tests/soak/epifuse_soak",
        "--device",
        "cuda",
        "--minutes",
        minutes or "9",
        "--seed",
        str(options.seed),
        "--emitted-share",
        "0",
        "--regressions",
        options.out / "soak-failed.inc",
        "--json",
        options.out / "soak-gpu.json",
    ], {}


def fuzz(options, seconds):
    """Four fuzzers: as many workers of each as give every core one."""
    workers = (os.cpu_count() + 3) // 4
    return [
        record.ROOT / "dev",
        "fuzz",
        "--prebuilt",
        "--seconds",
        seconds or "300",
        "--workers",
        str(workers),
        "--at-once",
        str(4 * workers),
        "--out",
        options.out,
    ], {}


STEPS = {"attack": attack, "soak": soak, "fuzz": fuzz}


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=record.ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=record.ROOT / "build/results")
    parser.add_argument(
        "--steps",
        type=lambda text: text.split(","),
        default=["attack", "soak=9"],
        help="of attack, soak=MINUTES, fuzz=SECONDS",
    )
    parser.add_argument("--seed", type=int, default=2026, help="of soak (%(default)s)")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the commands, and see that their programs are there"
    )
    options = parser.parse_args()
    unknown = [step for step in options.steps if step.partition("=")[0] not in STEPS]
    if unknown:
        parser.error(f"no step '{unknown[0]}'; there are {', '.join(STEPS)}")
    options.build, options.out = options.build.resolve(), options.out.resolve()
    return options


def main():
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for step in options.steps:
        name, _, amount = step.partition("=")
        command, more = STEPS[name](options, amount)
        if options.dry_run:
            there = pathlib.Path(command[0]).exists()
            print(f"{name}: {' '.join(map(str, command))}{'' if there else ' (not there)'}")
            failed += [] if there else [name]
            continue
        begin = time.monotonic()
        environment = os.environ | {"EPIFUSE_COMMIT": record.commit() or ""} | more
        if subprocess.run(list(map(str, command)), env=environment, check=False).returncode:
            failed.append(name)
        print(f"== {name}: {time.monotonic() - begin:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
