#!/usr/bin/env python3
"""What chains with views cost, counted from plans and machine code. Nothing runs on a GPU.

usage: bench/view_counts.py [--epifuse build/tools/epifuse] [--output bench/results/views-stub.json] [--dry-run]

Tails: those of KernelBench level 2, odd numbers: kernels, and the bytes that their plans move over every operand and every result once, in f32 and f16.
Loops: five chains in f16 for sm_90, whose instructions per element stand beside those of a kernel written by hand (by_hand_views.py). Instructions are those of
the path that stores most (sass.py; needs nvdisasm). The oracle: outcomes of python/tests/support/view_cases.py, as its report in tests/reports has them.
"""

import argparse
import ctypes
import glob
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import by_hand_views
import plans
import pointwise_cases
import record
import reductions_cases
import sass

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORACLE = ROOT / "tests/reports/views.json"
TYPES = ("f32", "f16")
POOLED = "max_pool2d(tanh(batch_norm(x, w, b)), 2)"
# The odd tails with views or batch statistics: number, operands, chains of as many kernels as data dependencies ask for.
REST = [
    (3, "x=32x64x32x64x64 weight=64 bias=64", ["gelu(avg_pool3d(layer_norm(x + 1.0, weight, bias), 2))"]),
    (11, "x=512x128x34x34 w=128 b=128 weight=128 bias=128 y=512x128x17x17", [POOLED, "group_norm(y, 8, weight, bias)"]),
    (13, "x=16x64x32x128x128 bias=64x1x1x1", ["tanh(softmax(mean(x, axis=2, keepdim=true) + bias, axis=1)) * 2.0"]),
    (15, "x=16x32x31x63x63 w=32 b=32 t=16x32x31x63x63", ["batch_norm(x, w, b)", "t - mean(t, axis=(2,3,4), keepdim=true)"]),
    (33, "x=1024x8192 scale=8192 w=8192 b=8192", ["batch_norm(x * scale, w, b)"]),
    (35, "x=128x128x126x126", ["mish(max_pool2d(hardswish(x - 0.5), 2))"]),
    (39, "x=16384x4096 scale=4096 w=4096 b=4096", ["batch_norm(x * scale, w, b)"]),
    (41, "x=16384x4096 w=4096 b=4096", ["relu(gelu(batch_norm(x, w, b)))"]),
    (43, "x=4x64x32x128x128", ["relu(logsumexp(max_pool3d(x, 2), axis=1, keepdim=true))"]),
    (55, "x=128x32768", ["sum(max_pool1d(x, 2), axis=1) * 0.5"]),
    (61, "x=16x128x34x34x34 weight=128 bias=128", ["group_norm(relu(x), 8, weight, bias)"]),
    (65, "x=128x64x382x382", ["sum(sigmoid(avg_pool2d(x, 4)), axis=(1,2,3))"]),
    (73, "x=128x64x126x126 w=64 b=64", ["batch_norm(x, w, b) * 2.0"]),
    (77, "x=16x128x20x36x36 w=128 b=128", ["mean(batch_norm(x * 2.0, w, b), axis=(2,3,4), keepdim=true)"]),
    (79, "x=128x16x14x30x30 m=16x1x1x1", ["amax(clamp(instance_norm(x * m), -1, 1) * m, axis=1)"]),
    (85, "x=128x64x126x126 weight=64 bias=64 scale=64x1x1", ["clamp(max_pool2d(group_norm(x, 16, weight, bias) * scale, 4), 0, 1)"]),
    (89, "x=128x16x32x64x64 subtract=16x1x1x1", ["amax(silu(softmax(max_pool3d(x, 2), axis=1) - subtract), axis=1)"]),
    (97, "x=1024x8192 w=8192 b=8192 bias=1", ["silu((batch_norm(x, w, b) + bias) / 1.0)"]),
]


def tails():
    """Number, operands, chains of all odd tails."""
    plain = [(number, operands, [chain]) for number, operands, chain in pointwise_cases.LEVEL2]
    plain += [(number, operands, [chain]) for number, operands, chain, *_ in reductions_cases.LEVEL2]
    rest = {number for number, *_ in REST}
    return sorted([one for one in plain if one[0] not in rest] + REST)


def words_of(chain):
    return set(re.findall(r"[A-Za-z_]\w*", chain))


def dumped(tool, chain, given, *emit):
    """What `epifuse dump` prints; None, and the reason, where the chain is no kernel."""
    found = sass.disassembler()
    folders = [os.environ.get("PATH", ""), *([os.path.dirname(found)] if found else [])]
    command = [tool, "dump", chain, *given, "--arch", "sm_90", "--emit", *emit]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": os.pathsep.join(folders)})
    return (done.stdout, None) if done.returncode == 0 else (None, done.stderr.strip().partition("error: ")[2] or done.stderr.strip())


# ---- tails


def of_chain(tool, chain, operands, dtype):
    shapes = {name: shape for name, _, shape in (item.partition("=") for item in operands.split()) if name in words_of(chain)}
    given = [f"{name}={dtype}[{shape.replace('x', ',')}]" for name, shape in shapes.items()]
    text, refused = dumped(tool, chain, [*given, "--out", dtype], "plan", "--json")
    if refused:
        return {"chain": chain, "refused": refused}
    plan = json.loads(text)["plan"]
    size = pointwise_cases.ITEM_BYTES[dtype]
    read = sum(math.prod(map(int, shape.split("x"))) for shape in shapes.values()) * size
    moved = plans.moved_bytes(plan)
    return {"chain": chain, "refused": None, "schedule": plan["schedule"], "moved_bytes": moved, "least_bytes": read + plan["bytes_written"],
            "ratio": moved / (read + plan["bytes_written"])}


def tail_record(tool, number, operands, chains, dtype):
    kernels = [of_chain(tool, chain, operands, dtype) for chain in chains]
    planned = all(not one["refused"] for one in kernels)
    moved, least = (sum(one[key] for one in kernels) if planned else None for key in ("moved_bytes", "least_bytes"))
    return {"kind": "tail", "number": number, "dtype": dtype, "operands": operands, "expected_kernels": len(chains),
            "kernels": len(kernels) if planned else None, "moved_bytes": moved, "least_bytes": least,
            "ratio": moved / least if planned else None, "chains": kernels}


# ---- loops


def nvrtc_of(tool):
    """The library that EpiFuse finds, and the folder of CUDA's headers beside it."""
    done = subprocess.run([tool, "doctor", "--json"], capture_output=True, text=True, check=False)
    found = re.search(r"\((.*)\)", json.loads(done.stdout)["nvrtc"] or "")
    if not found:
        return None, None
    beside = pathlib.Path(found[1]).resolve()
    folders = [parent / "include" for parent in beside.parents[:4]] + [pathlib.Path(one) for one in glob.glob(f"{beside.parents[2]}/*/include")]
    folders += [pathlib.Path(one) for one in sorted(glob.glob("/usr/local/cuda*/include"))]
    return found[1], next((folder for folder in folders if (folder / "cuda_fp16.h").exists()), None)


def by_hand(tool, source):
    """The machine code of a kernel written by hand; None where there is no NVRTC with headers."""
    path, headers = nvrtc_of(tool)
    if headers is None:
        return None
    library, program, size = ctypes.CDLL(path), ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), (by_hand_views.HEADER + source).encode(), b"by_hand.cu", 0, None, None)
    options = [b"--gpu-architecture=sm_90", b"--std=c++17", f"--include-path={headers}".encode()]
    failed = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    get = "ProgramLog" if failed else "CUBIN"
    getattr(library, f"nvrtcGet{get}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{get}")(program, text)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        sys.exit(f"view_counts.py: NVRTC refuses the kernel written by hand: {text.value.decode()}\n{source}")
    return sass.disassemble(text.raw)


def per_element(text):
    spent = sass.spent_on_hot_path(text) if text else None
    return spent.instructions / (spent.stored / 2) if spent and spent.stored else None


def widest(text):
    """Bytes of the widest load of the machine code."""
    if not text:
        return None
    widths = [sass.stored_bytes(one, "LDG") for one in re.findall(r"\bLDG[\w.]*", text)]
    return max(widths, default=0)


def loop_record(tool, chain, operands, source):
    given = [*operands.split(), "--out", "f16"]
    text = dumped(tool, chain, given, "sass")[0] if sass.disassembler() else None
    plan, refused = dumped(tool, chain, given, "plan", "--json")
    found, hand = per_element(text), per_element(by_hand(tool, source) if text else None)
    return {"kind": "loop", "chain": chain, "operands": operands, "refused": refused,
            "schedule": None if refused else json.loads(plan)["plan"]["schedule"], "instructions": found, "by_hand": hand,
            "ratio": found / hand if found and hand else None, "widest_load": widest(text)}


# ---- the oracle


def oracle_record():
    known = json.loads(ORACLE.read_text()) if ORACLE.exists() else None
    return {"kind": "oracle"} | ({key: known[key] for key in ("commit", "torch", "seed", "cases", "outcomes", "failures")} if known else {"cases": 0})


def summary(records):
    found = [one for one in records if one["kind"] == "tail"]
    planned = [one for one in found if one["kernels"]]
    within = sum(one["ratio"] <= 1.05 for one in planned)
    return f"{len(found)} tails: {len(planned)} have the least number of kernels, {within} of them within 1.05 of the least bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epifuse", default="build/tools/epifuse")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="one tail only")
    options = parser.parse_args()

    chosen = [one for one in tails() if one[0] == 35] if options.dry_run else tails()
    records = [tail_record(options.epifuse, *one, dtype) for one in chosen for dtype in TYPES]
    if not options.dry_run:
        records += [loop_record(options.epifuse, *one) for one in by_hand_views.KERNELS]
        records.append(oracle_record())
    print(summary(records))
    if options.output:
        document = record.made("views", device="none (plans and machine code)", command=" ".join(["bench/view_counts.py", *sys.argv[1:]]), records=records)
        record.write(options.output, document)


if __name__ == "__main__":
    main()
