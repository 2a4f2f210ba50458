#!/usr/bin/env python3
"""The bytes that each backward kernel moves beside the least possible, from its plan for an H100. Nothing runs on a GPU.

usage: bench/gradient_bytes.py [--epifuse build/tools/epifuse] [--output bench/results/gradient-bytes-stub.json] [--dry-run]

The chains are those of the guide and the tails of KernelBench level 2, odd numbers. The least is every operand that
backward reads once (the gradients of the results, what was saved, operands) and every gradient once. A row that no
block, cluster or grid holds is read again. A workspace counts as written and read.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

import plans
import pointwise_cases
import record
import reductions_cases

ROWS = "x=4096x4096 r=4096x4096 w=4096 b=4096 c=4096x1"
IMAGES = "x=32x64x56x56 w=64 b=64 k=64x1x1"
# Chain, operands, and the lists of operands whose gradients are asked for.
GUIDE = [
    ("gelu(x + b)", ROWS, ["x", "x,b"]),
    ("silu(x) * r", ROWS, ["x,r"]),
    ("relu(x + b)", ROWS, ["x,b"]),
    ("mish(x)", ROWS, ["x"]),
    ("sigmoid(x + r)", ROWS, ["x,r"]),
    ("softmax(x, -1)", ROWS, ["x"]),
    ("log_softmax(x, -1)", ROWS, ["x"]),
    ("logsumexp(x, -1)", ROWS, ["x"]),
    ("std(x, -1)", ROWS, ["x"]),
    ("layer_norm(x, w, b)", ROWS, ["x", "w,b", "x,w,b"]),
    ("rms_norm(x, w)", ROWS, ["x", "w", "x,w"]),
    ("rms_norm(x + r, w)", ROWS, ["x,r", "x,r,w"]),
    ("gelu(layer_norm(x, w, b))", ROWS, ["x"]),
    ("x * w * c", ROWS, ["w", "w,c"]),
    ("relu(x + k)", IMAGES, ["x,k"]),
    ("group_norm(x, 32, w, b)", IMAGES, ["x", "w,b", "x,w,b"]),
    ("silu(group_norm(x, 32, w, b))", IMAGES, ["x"]),
    ("instance_norm(x, w, b)", IMAGES, ["x"]),
    ("mean(relu(x), (2, 3))", IMAGES, ["x"]),
]
TYPES = ("f32", "bf16")
REFUSALS = ("cannot be one kernel", "in a launch of its own")  # of what takes several kernels


def batch_norm(value, axes, by_channel):
    """The text of batch_norm by the statistics of the batch, as statements that end in a value."""
    w, b = ("along(w, x, 1)", "along(b, x, 1)") if by_channel else ("w", "b")
    statistics = f"u = {value}; m = mean(u, axis={axes}, keepdim=true); v = var(u, axis={axes}, correction=0, keepdim=true)"
    return f"{statistics}; n = (u - m) * rsqrt(v + 1e-5) * {w} + {b}"


OF_ROWS, OF_IMAGES, OF_VOLUMES = (batch_norm("x", *how) for how in (("0", False), ("(0,2,3)", True), ("(0,2,3,4)", True)))
GUIDE += [(f"{norm}; {then}", operands, ["x", "x,w,b"]) for norm, operands in ((OF_ROWS, ROWS), (OF_IMAGES, IMAGES)) for then in ("n", "relu(n)")]

# The odd numbers whose models pool, have batch statistics, or were left out of the lists of forward passes. Number, operands, chain.
REST = [
    (3, "x=32x64x32x64x64 weight=64 bias=64", "gelu(avg_pool3d(layer_norm(x + 1.0, weight, bias), 2))"),
    (11, "x=512x128x34x34 w=128 b=128", "group_norm(max_pool2d(tanh(x), 2), 8, w, b)"),
    (13, "x=16x64x32x128x128 bias=64x1x1x1", "tanh(softmax(mean(x, axis=2, keepdim=true) + bias, axis=1)) * 2"),
    (15, "x=16x32x31x63x63 w=32 b=32", f"{OF_VOLUMES}; n - mean(n, axis=(2,3,4), keepdim=true)"),
    (33, "x=1024x8192 scale=8192 w=8192 b=8192", f"{batch_norm('x * scale', '0', False)}; n"),
    (35, "x=128x128x126x126", "mish(max_pool2d(hardswish(x - 0.5), 2))"),
    (39, "x=16384x4096 scale=4096 w=4096 b=4096", f"{batch_norm('x * scale', '0', False)}; n"),
    (41, "x=16384x4096 w=4096 b=4096", f"{OF_ROWS}; relu(gelu(n))"),
    (43, "x=4x64x32x128x128", "relu(logsumexp(max_pool3d(x, 2), axis=1, keepdim=true))"),
    (55, "x=128x32768", "sum(max_pool1d(x, 2), axis=1) * 0.5"),
    (61, "x=16x128x34x34x34 gamma=128 beta=128", "group_norm(relu(x), 8, gamma, beta)"),
    (65, "x=128x64x382x382", "sum(sigmoid(avg_pool2d(x, 4)), axis=(1,2,3))"),
    (73, "x=128x64x126x126 w=64 b=64", f"{OF_IMAGES}; n * 2"),
    (77, "x=16x128x20x36x36 w=128 b=128", f"{batch_norm('x * 2', '(0,2,3,4)', True)}; mean(n, axis=(2,3,4), keepdim=true)"),
    (79, "x=128x16x14x30x30 m=16x1x1x1", "amax(clamp(instance_norm(x * m), -1, 1) * m, axis=1)"),
    (85, "x=128x64x126x126 weight=64 bias=64 scale=64x1x1", "clamp(max_pool2d(group_norm(x, 16, weight, bias) * scale, 4), 0, 1)"),
    (89, "x=128x16x32x64x64 subtract=16x1x1x1", "amax(silu(softmax(max_pool3d(x, 2), axis=1) - subtract), axis=1)"),
    (97, "x=1024x8192 w=8192 b=8192 bias=1", f"{OF_ROWS}; silu((n + bias) / 1)"),
]


def level2():
    """The same for the tails: the gradient of the producer's result, then those of the parameters with it."""
    tails = [(number, operands, chain) for number, operands, chain in pointwise_cases.LEVEL2]
    tails += [(number, operands, chain) for number, operands, chain, *_ in reductions_cases.LEVEL2]
    tails += [one for one in REST if one[0] not in {number for number, *_ in tails}]
    for number, operands, chain in tails:
        names = [item.partition("=")[0] for item in operands.split()]
        yield f"level2 {number}", chain, operands, dict.fromkeys(["x", ",".join(names)])


def cases():
    for chain, operands, wanted in GUIDE:
        for names in wanted:
            yield "guide", chain, operands, names
    for group, chain, operands, wanted in level2():
        for names in wanted:
            yield group, chain, operands, names


def words_of(chain):
    return set("".join(letter if letter.isalnum() or letter == "_" else " " for letter in chain).split())


def shapes_of(chain, operands):
    """Those of the operands that the chain has."""
    given = [item.partition("=") for item in operands.split()]
    return {name: list(map(int, shape.split("x"))) for name, _, shape in given if name in words_of(chain)}


def backward_plan(tool, shapes, chain, names, dtype):
    """The report of `epifuse dump`, or why backward is not one kernel."""
    given = [f"{name}={dtype}[{','.join(map(str, shape))}]" for name, shape in shapes.items()]
    command = [tool, "dump", chain, *given, "--gradient", names, "--emit", "plan", "--json", "--arch", "sm_90"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout), None
    if not any(words in done.stderr for words in REFUSALS):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return None, done.stderr.strip().partition("error: ")[2]


def least_bytes(report, shapes, names, dtype):
    """Each operand and each gradient once, counted from shapes alone."""
    read = [(one["shape"], one["dtype"]) for one in report["gradient"]["operands"] if one["source"] != "shape"]
    written = [(shapes[name], dtype) for name in names.split(",")]
    return sum(math.prod(shape) * pointwise_cases.ITEM_BYTES[stored] for shape, stored in read + written)


def measured(tool, group, chain, operands, names, dtype):
    found = {"group": group, "chain": chain, "operands": operands, "wrt": names, "dtype": dtype}
    shapes = shapes_of(chain, operands)
    report, refused = backward_plan(tool, shapes, chain, names, dtype)
    if refused:
        return found | {"refused": refused}
    plan = report["plan"]
    moved = plans.moved_bytes(plan)
    least = least_bytes(report, shapes, names, dtype)
    reads = [operand["name"] for operand in report["gradient"]["operands"] if operand["source"] != "shape"]
    return found | {
        "refused": None,
        "schedule": plan["schedule"],
        "reads": reads,
        "moved_bytes": moved,
        "read_again_bytes": plan["bytes_read_again"],
        "least_bytes": least,
        "ratio": moved / least,
    }


def summary(records):
    planned = [one for one in records if not one["refused"]]
    within = sum(one["ratio"] <= 1.05 for one in planned)
    return f"{len(records)} backward passes: {len(planned)} are one kernel, {within} of them within 1.05 of the least bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epifuse", default="build/tools/epifuse")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="the first chain only")
    options = parser.parse_args()

    chosen = list(cases())[:1] if options.dry_run else list(cases())
    records = [measured(options.epifuse, *one, dtype) for one in chosen for dtype in TYPES]
    print(summary(records))
    if options.output:
        record.write(
            options.output,
            record.made(
                "gradient-bytes",
                device="none (plans for sm_90)",
                command=" ".join(["bench/gradient_bytes.py", *sys.argv[1:]]),
                records=records,
            ),
        )


if __name__ == "__main__":
    main()
