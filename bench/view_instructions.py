#!/usr/bin/env python3
"""Instructions per element of kernels that read through views, beside kernels written by hand (bench/view_kernels). Nothing runs on a GPU.

usage: bench/view_instructions.py [--epifuse build/tools/epifuse] [--output bench/results/view-instructions-stub.json] [--dry-run]

All kernels are machine code for sm_90 of the NVRTC that EpiFuse finds: EpiFuse's as the tool compiles it. Those by hand are compiled with NVRTC's
defaults, which contract a product and a sum into one instruction; and once more with EpiFuse's options, which contract nothing. All are counted
the same way (sass_path.py; needs nvdisasm): every instruction on the path from entry to exit on which a thread loads and stores most bytes, of
such paths the shortest. So index arithmetic, tests of borders and the end of the grid count; code for what is cut off does not. The sum is divided
by the results of 2 bytes that the path stores.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import re
import sys

import compile_time
import plans
import record
import sass
import sass_path

KERNELS = pathlib.Path(__file__).resolve().parent / "view_kernels"
ARCHITECTURE = 90
TARGET = 1.1  # of the instructions by hand
RESULT_BYTES = 2


@dataclasses.dataclass(frozen=True)
class Case:
    chain: str
    operands: dict  # name -> (type, shape)
    by_hand: str  # file in view_kernels, and the kernel's name


POOLED = {"x": ("f16", (32, 64, 112, 112))}
CASES = [
    Case("max_pool2d(x, 2)", POOLED, "max_pool2d"),
    Case("max_pool2d(x, 2)", POOLED, "max_pool2d_packed"),
    Case("avg_pool2d(x, 3, 1, 1)", POOLED, "avg_pool2d"),
    Case("silu(x[..., :4096]) * x[..., 4096:]", {"x": ("f16", (8192, 8192))}, "swiglu"),
    Case(
        "rope(q, cos, sin)",
        {"q": ("f16", (8, 32, 2048, 128)), "cos": ("f32", (2048, 64)), "sin": ("f32", (2048, 64))},
        "rope",
    ),
    Case(
        "layer_norm(embedding(ids, w), g, b)",
        {"ids": ("i64", (64, 128)), "w": ("f16", (50000, 768)), "g": ("f16", (768,)), "b": ("f16", (768,))},
        "embedding_layer_norm",
    ),
]

# What instructions are for, by the first word of their opcodes. All others are "index": addresses, divisions, tests, branches, parameters.
KINDS = {
    "memory": ("LDG", "STG", "LDS", "STS"),
    "conversions": ("F2FP", "PRMT"),
    "arithmetic": ("FADD", "FMUL", "FFMA", "FMNMX", "HMNMX2", "VHMNMX", "MUFU", "SHFL", "FSETP", "FSEL"),
}
OTHER = "index"


def kind_of(opcode):
    """HADD2.F32 widens a half; MUFU.RCP is a reciprocal."""
    if opcode.startswith("HADD2.F32"):
        return "conversions"
    base = opcode.split(".")[0]
    return next((kind for kind, bases in KINDS.items() if base in bases), OTHER)


def counted(text, registers):
    """Of machine code as nvdisasm prints it: what a record says of one kernel."""
    path = sass_path.full_path(text)
    results = sum(sass.stored_bytes(opcode) for opcode in path) // RESULT_BYTES
    kinds = collections.Counter(map(kind_of, path))
    moved = [sass.stored_bytes(opcode, access) for opcode in path for access in ("LDG", "STG")]
    return {
        "instructions": len(path) / results,
        "kinds": {kind: kinds[kind] / results for kind in (*KINDS, OTHER)},
        "bytes_per_access": sorted({one for one in moved if one}, reverse=True),
        "results": results,
        "registers": registers,
    }


def dumped(tool, case, *emit):
    more = ("--out", "f16", "--emit", *emit)
    return plans.dumped(tool, case.chain, case.operands, f"sm_{ARCHITECTURE}", *more)


def source_of(name):
    """A kernel's text with the header in its place: NVRTC reads no files."""
    text = (KERNELS / f"{name}.cu").read_text(encoding="utf-8")
    return text.replace('#include "halves.cuh"', (KERNELS / "halves.cuh").read_text(encoding="utf-8"))


def by_hand(nvrtc, name):
    image = nvrtc.compile(source_of(name))
    return counted(sass.disassemble(image.cubin), int(re.search(r"Used (\d+) registers", image.log)[1]))


def plan_of(tool, case):
    return json.loads(dumped(tool, case, "plan", "--json"))["plan"]


def in_memory(plan):
    """Operands and results that lie in memory, as the plan names them, and the bytes of one access of each. Of views
    that read elements of others the plan counts no bytes."""
    nothing = ("bound", "inside", "position", "unused")  # masks and positions lie nowhere
    return {one["name"]: one["bytes_per_access"] for one in plan["operands"] if one["access"] not in nothing}


def measured(tool, contracting, rounding, case):
    """By two compilers for what is written by hand: one contracts products and sums, the other rounds each."""
    plan = plan_of(tool, case)
    ours = counted(dumped(tool, case, "sass"), plan["registers"])
    hand, rounded = (by_hand(nvrtc, case.by_hand) for nvrtc in (contracting, rounding))
    return {
        "chain": case.chain,
        "operands": {name: [dtype, list(shape)] for name, (dtype, shape) in case.operands.items()},
        "by_hand": case.by_hand,
        "schedule": plan["schedule"],
        "plan_bytes_per_access": in_memory(plan),
        "epifuse": ours,
        "hand": hand,
        "hand_not_contracted": rounded,
        "ratio": ours["instructions"] / hand["instructions"],
        "ratio_not_contracted": ours["instructions"] / rounded["instructions"],
    }


def summary(records):
    within = sum(one["ratio"] <= TARGET for one in records)
    return f"{len(records)} kernels by hand: {within} of EpiFuse's within {TARGET} of their instructions"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epifuse", default="build/tools/epifuse")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="plan each chain, compile nothing by hand")
    options = parser.parse_args()

    if options.dry_run:
        schedules = [plan_of(options.epifuse, case)["schedule"] for case in CASES]
        return print(f"{len(CASES)} kernels by hand, beside {', '.join(schedules)}")
    if sass.disassembler() is None:
        sys.exit("view_instructions.py: no nvdisasm; expected one of a CUDA toolkit, of Triton's package, or in PATH")
    path, version = compile_time.nvrtc_of(options.epifuse)
    compilers = [compile_time.Nvrtc(path, ARCHITECTURE, contract) for contract in (True, False)]
    records = [measured(options.epifuse, *compilers, case) for case in CASES]
    print(summary(records))
    if options.output:
        document = record.made(
            "view-instructions",
            device="none (plans and machine code)",
            versions={"nvrtc": version},
            command=" ".join(["bench/view_instructions.py", *sys.argv[1:]]),
            settings={"architecture": ARCHITECTURE, "target": TARGET},
            records=records,
        )
        record.write(options.output, document)
    return None


if __name__ == "__main__":
    main()
