#!/usr/bin/env python3
"""What the kernels of quantising tails cost, counted from plans and machine code. Nothing runs on a GPU.

usage: bench/quantise_bytes.py [--epifuse build/tools/epifuse] [--output bench/results/quantise-bytes-stub.json] [--dry-run]

The tails are what stands before the fp8 and int8 products of a language model, in bf16: a gate, or a residual and its norm; the norm of an attention's
heads with rotary embedding; and the sum over a mixture's experts. The least bytes are every operand and every result once. Instructions are those of one thread on the path that stores most, over the elements that it handles
(sass.py; needs nvdisasm); registers are the compiler's, and blocks in flight are the plan's.
"""

import argparse
import json
import math
import pathlib
import re
import sys

import plans
import pointwise_cases
import record
import sass

ROWS, COLUMNS = 4096, 7168
HEADS, WIDTH = 32, 128  # of each row
EXPERTS = 8  # that a row is sent to
ARCHITECTURES = ("sm_90", "sm_100")
ROPE = "rope(rms_norm(heads, wh, eps=1e-6), cosines, sines, positions)"
MIXTURE = "sum(take(expert, ids) * weights[..., None], 1)"
GATE, RESIDUAL = "silu(gate) * up", "h = x + r; y = rms_norm(h, w, eps=1e-6)"
# What it is called, and the chain.
TAILS = [
    ("gate → fp8, static scale", f"cast({GATE} * k, f8e4m3)"),
    ("gate → fp8, static scale, and amax", f"y = {GATE}; return cast(y * k, f8e4m3), amax(abs(y))"),
    ("gate → fp8 per row", f"q, s = quantize({GATE}, f8e4m3); return q, s"),
    ("gate → fp8 per 1×128", f"q, s = quantize({GATE}, f8e4m3, 128); return q, s"),
    ("gate → fp8 per 1×128, E8M0", f"q, s = quantize({GATE}, f8e4m3, 128, true); return q, cast(s, f8e8m0)"),
    ("gate → MXFP8", f"q, s = mx_quantize({GATE}, f8e4m3); return q, s"),
    ("gate → MXFP8, scales in tiles", f"q, s = mx_quantize({GATE}, f8e4m3); return q, scale_tiles(s)"),
    ("gate → NVFP4", f"q, s = nv_quantize({GATE}, g); return q, s"),
    ("gate → NVFP4, scales in tiles", f"q, s = nv_quantize({GATE}, g); return q, scale_tiles(s)"),
    ("gate → MXFP4", f"q, s = mx_quantize({GATE}, f4e2m1); return q, s"),
    ("gate → int4 per 32", f"q, s = quantize({GATE}, i4, 32); return q, s"),
    ("gate → int8 per row", f"q, s = quantize({GATE}, i8); return q, s"),
    ("gate → int8 per 128", f"q, s = quantize({GATE}, i8, 128); return q, s"),
    ("residual, norm → fp8, static scale", f"{RESIDUAL}; return h, cast(y * k, f8e4m3)"),
    ("residual, norm → fp8, static scale, and amax", f"{RESIDUAL}; return h, cast(y * k, f8e4m3), amax(abs(y))"),
    ("residual, norm → fp8 per row", f"{RESIDUAL}; q, s = quantize(y, f8e4m3); return h, q, s"),
    ("residual, norm → int8 per row", f"{RESIDUAL}; q, s = quantize(y, i8); return h, q, s"),
    ("residual, norm → fp8 per 1×128", f"{RESIDUAL}; q, s = quantize(y, f8e4m3, 128); return h, q, s"),
    ("residual, norm → fp8 per 1×128, E8M0", f"{RESIDUAL}; q, s = quantize(y, f8e4m3, 128, true); return h, q, cast(s, f8e8m0)"),
    ("residual, norm → MXFP8", f"{RESIDUAL}; q, s = mx_quantize(y, f8e4m3); return h, q, s"),
    ("residual, norm → MXFP8, scales in tiles", f"{RESIDUAL}; q, s = mx_quantize(y, f8e4m3); return h, q, scale_tiles(s)"),
    ("residual, norm → NVFP4", f"{RESIDUAL}; q, s = nv_quantize(y, g); return h, q, s"),
    ("residual, norm → NVFP4, scales in tiles", f"{RESIDUAL}; q, s = nv_quantize(y, g); return h, q, scale_tiles(s)"),
    ("residual, norm → MXFP4", f"{RESIDUAL}; q, s = mx_quantize(y, f4e2m1); return h, q, s"),
    ("residual, norm → int8 per 128", f"{RESIDUAL}; q, s = quantize(y, i8, 128); return h, q, s"),
    ("residual → MXFP8", "h = x + r; q, s = mx_quantize(h, f8e4m3); return h, q, s"),
    ("i32 product → bf16", "cast(x * row * column + bias, bf16)"),
    ("norm of heads, rope → bf16", f"cast({ROPE}, bf16)"),
    ("norm of heads, rope → fp8, static scale", f"cast({ROPE} * k, f8e4m3)"),
    ("norm of heads, rope → fp8 per head", f"q, s = quantize({ROPE}, f8e4m3); return q, s"),
    (
        "norm of heads, rope → fp8 per head, into a paged cache",
        f"q, s = quantize({ROPE}, f8e4m3); return index_copy(keys, 0, slots, q), index_copy(scales, 0, slots, s)",
    ),
    ("sum over 8 experts, residual → bf16", f"cast({MIXTURE} + r, bf16)"),
]
OPERANDS = {
    "gate": ("bf16", (ROWS, COLUMNS)),
    "up": ("bf16", (ROWS, COLUMNS)),
    "x": ("bf16", (ROWS, COLUMNS)),
    "r": ("bf16", (ROWS, COLUMNS)),
    "w": ("bf16", (COLUMNS,)),
    "g": ("f32", ()),
    "row": ("f32", (ROWS, 1)),
    "column": ("f32", (COLUMNS,)),
    "bias": ("f32", (COLUMNS,)),
    "heads": ("bf16", (ROWS, HEADS, WIDTH)),
    "wh": ("bf16", (WIDTH,)),
    "cosines": ("f32", (ROWS, WIDTH // 2)),
    "sines": ("f32", (ROWS, WIDTH // 2)),
    "positions": ("i32", (ROWS, 1)),
    "k": ("f32", ()),
    "keys": ("f8e4m3", (ROWS, HEADS, WIDTH)),  # a slot for each row, each of which is written
    "scales": ("f32", (ROWS, HEADS, 1)),
    "slots": ("i32", (ROWS,)),
    "expert": ("bf16", (ROWS * EXPERTS, COLUMNS)),
    "ids": ("i32", (ROWS, EXPERTS)),
    "weights": ("f32", (ROWS, EXPERTS)),
}


def operands_of(chain):
    words = set(re.findall(r"\w+", chain))
    found = {name: given for name, given in OPERANDS.items() if name in words}
    if "row" in found:
        found["x"] = ("i32", (ROWS, COLUMNS))
    return found


def dumped(tool, chain, architecture, *emit):
    return plans.dumped(tool, chain, operands_of(chain), architecture, "--emit", *emit)


def instructions_of(tool, chain, architecture, elements, result_bytes):
    """Per element of a thread that has so many; None without a disassembler, and where the path does not store so many bytes."""
    if sass.disassembler() is None:
        return None
    spent = sass.spent_on_hot_path(dumped(tool, chain, architecture, "sass"))
    return spent.instructions / elements if spent.stored >= result_bytes else None


def results_of(report):
    """The plan's operands that are results. The IR says how many: a line `return %7 as q` for each."""
    names = re.findall(r"^return %\d+ as (.*)$", report["ir"], re.M)
    results = report["plan"]["operands"][-len(names) :]
    if not names or [one["name"] for one in results] != names:
        sys.exit(f"quantise_bytes.py: the results {names} are not the last operands of the plan")
    return results


def measured(tool, name, chain, architecture, dry=False):
    report = json.loads(dumped(tool, chain, architecture, "ir,plan", "--json"))
    plan, results = report["plan"], results_of(report)
    sizes = pointwise_cases.ITEM_BYTES
    written = re.findall(r"index_copy\((\w+)", chain)  # as results, and not read
    read = [tensor for name, tensor in operands_of(chain).items() if name not in written]
    tensors = [*read, *((one["dtype"], one["shape"]) for one in results)]
    least = sum(math.prod(shape) * sizes[dtype] for dtype, shape in tensors)
    moved = plans.moved_bytes(plan)
    if moved < least:
        sys.exit(f"quantise_bytes.py: {name}, {architecture}: {moved} B moved of at least {least} B: one count is wrong")
    largest = max(math.prod(one["shape"]) for one in results)
    full = sum(sizes[one["dtype"]] for one in results if math.prod(one["shape"]) == largest)
    of_a_thread = plan["elements_per_access"] * plan["steps"]
    stored = of_a_thread * largest / plan["elements"] * full  # a sum has fewer results than elements
    text = "" if dry else dumped(tool, chain, architecture, "plan")
    in_flight = re.search(r"^in flight +(\d+) blocks of (\d+) threads", text, re.M)
    return {
        "tail": name,
        "chain": chain,
        "architecture": architecture,
        "results": [one["dtype"] for one in results],
        "schedule": plan["schedule"],
        "moved_bytes": moved,
        "least_bytes": least,
        "ratio": moved / least,
        "instructions": None if dry else instructions_of(tool, chain, architecture, of_a_thread, stored),
        "registers": plan["registers"],
        "spilled_bytes": plan["spilled_bytes"],
        "blocks_in_flight": int(in_flight[1]) if in_flight else None,
        "threads": plan["threads"],
    }


def summary(records):
    within = sum(one["ratio"] <= 1.03 for one in records)
    return f"{len(records)} kernels: {within} of them within 1.03 of the least bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epifuse", default="build/tools/epifuse")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="bytes of every tail, on one architecture")
    options = parser.parse_args()

    architectures = ARCHITECTURES[:1] if options.dry_run else ARCHITECTURES
    records = [measured(options.epifuse, *tail, one, options.dry_run) for tail in TAILS for one in architectures]
    print(summary(records))
    if options.output:
        document = record.made(
            "quantise-bytes",
            device="none (plans and machine code)",
            command=" ".join(["bench/quantise_bytes.py", *sys.argv[1:]]),
            settings={"rows": ROWS, "columns": COLUMNS},
            records=records,
        )
        record.write(options.output, document)


if __name__ == "__main__":
    main()
