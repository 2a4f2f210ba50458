#!/usr/bin/env python3
"""All odd-numbered tails of KernelBench level 2: right beside PyTorch, how many kernels they take, and the bytes that these move.

    bench/level2_tails.py --epifuse build-ci/tools/epifuse --emitted build-ci/tests/emitted/emitted_test tests/reports/tails.json

Small shapes run on the CPU device and as emitted text, in f32, f16 and bf16. Full shapes are planned for an H100. Nothing runs on a GPU, and
nothing is timed. Needs PyTorch; `./dev build ci epifuse_tool emitted_test` builds what runs."""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import plans
import pointwise_cases
import reductions_cases

TYPES = ("f32", "f16", "bf16")
# Of the largest element: some roundings of f32, one of a result with few bits.
TOLERANCES = {"f32": 1e-5, "f16": 1e-3, "bf16": 8e-3}


@dataclasses.dataclass(frozen=True)
class Tail:
    """`chains` has the text of each kernel that the data need at least. What one gives is called y in the next."""

    number: int
    operands: str  # full shapes
    chains: tuple
    small: str = ""  # shapes that small_operands() does not give


def _plain():
    rows = [(number, operands, text) for number, operands, text in pointwise_cases.LEVEL2]
    rows += [(number, operands, text) for number, operands, text, *_ in reductions_cases.LEVEL2]
    small = {75: "x=3x1024 gamma=1024 beta=1024", 37: "x=3x256 bias=256 gamma=256 beta=256"}
    return [Tail(number, operands, (text,), small.get(number, "")) for number, operands, text in rows]


# Those with views or statistics of the batch.
REST = [
    Tail(3, "x=32x64x32x64x64 weight=64 bias=64", ("gelu(avg_pool3d(layer_norm(x + 1.0, weight, bias), 2))",), "x=3x4x6x4x16 weight=16 bias=16"),
    Tail(
        11,
        "x=512x128x34x34 w=128 b=128 weight=128 bias=128",
        ("batch_norm(x, w, b)", "group_norm(max_pool2d(tanh(y), 2), 8, weight, bias)"),
    ),
    Tail(13, "x=16x64x32x128x128 bias=64x1x1x1", ("tanh(softmax(mean(x, axis=2, keepdim=true) + bias, axis=1)) * 2.0",)),
    Tail(15, "x=16x32x31x63x63 w=32 b=32", ("batch_norm(x, w, b)", "y - mean(y, axis=(2,3,4), keepdim=true)")),
    Tail(33, "x=1024x8192 scale=8192 w=8192 b=8192", ("batch_norm(x * scale, w, b)",)),
    Tail(35, "x=128x128x126x126", ("mish(max_pool2d(hardswish(x - 0.5), 2))",)),
    Tail(39, "x=16384x4096 scale=4096 w=4096 b=4096", ("batch_norm(x * scale, w, b)",)),
    Tail(41, "x=16384x4096 w=4096 b=4096", ("relu(gelu(batch_norm(x, w, b)))",)),
    Tail(43, "x=4x64x32x128x128", ("relu(logsumexp(max_pool3d(x, 2), axis=1, keepdim=true))",)),
    Tail(55, "x=128x32768", ("sum(max_pool1d(x, 2), axis=1) * 0.5",)),
    Tail(61, "x=16x128x34x34x34 weight=128 bias=128", ("group_norm(relu(x), 8, weight, bias)",)),
    Tail(65, "x=128x64x382x382", ("sum(sigmoid(avg_pool2d(x, 4)), axis=(1,2,3))",)),
    Tail(73, "x=128x64x126x126 w=64 b=64", ("batch_norm(x, w, b) * 2.0",)),
    Tail(77, "x=16x128x20x36x36 w=128 b=128", ("mean(batch_norm(x * 2.0, w, b), axis=(2,3,4), keepdim=true)",)),
    Tail(79, "x=128x16x14x30x30 m=16x1x1x1", ("amax(clamp(instance_norm(x * m), -1, 1) * m, axis=1)",)),
    Tail(
        85,
        "x=128x64x126x126 weight=64 bias=64 scale=64x1x1",
        ("clamp(max_pool2d(group_norm(x, 16, weight, bias) * scale, 4), 0, 1)",),
    ),
    Tail(89, "x=128x16x32x64x64 subtract=16x1x1x1", ("amax(silu(softmax(max_pool3d(x, 2), axis=1) - subtract), axis=1)",)),
    Tail(97, "x=1024x8192 w=8192 b=8192 bias=1", ("silu((batch_norm(x, w, b) + bias) / 1.0)",)),
]
TAILS = sorted([*_plain(), *REST], key=lambda tail: tail.number)


def shapes_of(operands):
    return {name: tuple(map(int, shape.split("x"))) for name, _, shape in (one.partition("=") for one in operands.split())}


def small_operands(tail):
    """Few elements of each dimension, as many channels as groups divide."""
    if tail.small:
        return shapes_of(tail.small)
    full = shapes_of(tail.operands)
    x = full["x"]
    small = [5, 40] if len(x) == 2 else [3, 24 if x[1] == 24 else 16, *(8 + at for at in range(len(x) - 2))]
    of_parameter = {x[1]: small[1], 1: 1}
    return {name: tuple(small) if name == "x" else tuple(map(of_parameter.get, shape)) for name, shape in full.items()}


# ---- what PyTorch gives


def functions():
    import torch
    import torch.nn.functional as F

    def over(function):
        return lambda x, axis, keepdim=False: function(x, dim=axis, keepdim=keepdim)

    named = {name: over(getattr(torch, name)) for name in ("mean", "sum", "amax", "amin", "logsumexp")}
    for name in "relu gelu mish silu hardswish hardtanh leaky_relu tanh sigmoid max_pool1d max_pool2d max_pool3d avg_pool2d avg_pool3d".split():
        named[name] = getattr(F, name, None) or getattr(torch, name)
    return named | {
        "true": True,
        "clamp": torch.clamp,
        "minimum": lambda x, most: torch.clamp(x, max=most),
        "softmax": lambda x, axis: F.softmax(x, dim=axis),
        "layer_norm": lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias),
        "group_norm": F.group_norm,
        "instance_norm": F.instance_norm,
        "batch_norm": lambda x, weight, bias: F.batch_norm(x, None, None, weight, bias, training=True),
        "max_pool1d": lambda x, size: F.max_pool1d(x[None], size)[0] if x.dim() == 2 else F.max_pool1d(x, size),
    }


def expected(text, operands):
    """In float64; statements before the last name a value."""
    *statements, last = text.split(";")
    names = functions() | {name: one.double() for name, one in operands.items()}
    for statement in statements:
        name, _, value = statement.partition("=")
        names[name.strip()] = eval(value, names)
    return eval(last, names)


def drawn(shapes, dtype):
    import torch

    generator = torch.Generator().manual_seed(2027)
    stored = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    return {name: torch.randn(shape, generator=generator).to(stored) for name, shape in shapes.items()}


# ---- small shapes


def words_of(text):
    return set(re.findall(r"[a-z_]\w*", text))


def small_cases(tail, dtype):
    """Of each kernel its text, operands, and what it gives. What a kernel takes of the one before has its type."""
    operands = drawn(small_operands(tail), dtype)
    for text in tail.chains:
        taken = {name: one for name, one in operands.items() if name in words_of(text)}
        result = expected(text, taken)
        yield text, taken, result
        operands["y"] = result.to(operands["x"].dtype)


def allowed(result, dtype):
    return TOLERANCES[dtype] * max(1.0, result.abs().max().item())


def on_cpu_device(tool, text, operands, result, dtype):
    """What is wrong, or None."""
    import numpy

    with tempfile.TemporaryDirectory() as folder:
        for name, one in operands.items():
            numpy.save(f"{folder}/{name}.npy", one.float().numpy())
        given = [f"{name}={dtype}@{folder}/{name}.npy" for name in operands]
        command = [tool, "run", text, *given, "--device", "cpu", "--out", dtype, "-o", f"{folder}/of_chain.npy"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr.strip()
        found = numpy.load(f"{folder}/of_chain.npy").astype("float64")
    if found.shape != tuple(result.shape):
        return f"shape {found.shape}, expected {tuple(result.shape)}"
    error = abs(found - result.numpy()).max()
    return None if error <= allowed(result, dtype) else f"differs by {error}"


def case_of_file(text, operands, result, dtype):
    """As tests/support/view_case_file.cpp reads it: operands are x0, x1, …"""
    for number, name in enumerate(operands):
        text = re.sub(rf"\b{name}\b(?!=)", f"x{number}", text)
    inputs = [{"type": dtype, "shape": list(one.shape), "values": one.double().flatten().tolist()} for one in operands.values()]
    return {
        "text": text,
        "inputs": inputs,
        "shape": list(result.shape),
        "values": result.flatten().tolist(),
        "tolerance": allowed(result, dtype),
        "result": dtype,
    }


def as_emitted_text(binary, cases):
    """How many kernels ran, and what was wrong with them."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(cases, file)
        file.flush()
        command = [binary, "--gtest_filter=EmittedViews.CasesOfAFileAreWhatItSays"]
        done = subprocess.run(command, env={**os.environ, "EPIFUSE_VIEW_CASES": file.name}, capture_output=True, text=True, check=False)
    ran = re.search(r"^(\d+) of \d+ cases of a file ran$", done.stdout, re.M)
    if ran is None:
        sys.exit(done.stdout + done.stderr)
    return int(ran[1]), re.findall(r"Failure\n(.*?)(?=\n\S*: Failure|\n\[)", done.stdout, re.S)


# ---- full shapes


def planned(tool, tail, dtype):
    """The bytes that the kernels move, and those of operands and result, each once; or why a chain is refused."""
    shapes = shapes_of(tail.operands)
    moved, from_caches = 0, 0
    for text in tail.chains:
        given = [f"{name}={dtype}[{','.join(map(str, shape))}]" for name, shape in shapes.items() if name in words_of(text)]
        command = [tool, "dump", text, *given, "--out", dtype, "--emit", "plan", "--json", "--arch", "sm_90"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"refused": done.stderr.strip().partition("error: ")[2]}
        plan = json.loads(done.stdout)["plan"]
        moved += plans.moved_bytes(plan)
        from_caches += plan["bytes_from_caches"]
        result = plan["operands"][-1]["shape"]
        shapes["y"] = tuple(result)
    elements = sum(math.prod(shape) for name, shape in shapes.items() if name != "y") + math.prod(result)
    least = elements * pointwise_cases.ITEM_BYTES[dtype]
    return {"moved_bytes": moved, "from_caches_bytes": from_caches, "least_bytes": least, "ratio": round(moved / least, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=pathlib.Path, help="the JSON file to write")
    parser.add_argument("--epifuse", default="build-ci/tools/epifuse")
    parser.add_argument("--emitted", default="build-ci/tests/emitted/emitted_test")
    given = parser.parse_args()
    records, emitted = [], []
    for tail in TAILS:
        for dtype in TYPES:
            wrong = []
            for text, operands, result in small_cases(tail, dtype):
                wrong += filter(None, [on_cpu_device(given.epifuse, text, operands, result, dtype)])
                emitted.append(case_of_file(text, operands, result, dtype))
            record = {"problem": tail.number, "dtype": dtype, "chains": list(tail.chains), "kernels": len(tail.chains)}
            records.append(record | {"small": small_operands(tail), "wrong": wrong} | planned(given.epifuse, tail, dtype))
            print(tail.number, dtype, wrong or "right", records[-1].get("ratio", records[-1].get("refused")), flush=True)
    ran, failures = as_emitted_text(given.emitted, emitted)
    report = {
        "command": "bench/level2_tails.py tests/reports/tails.json",
        "planned_for": "sm_90, 132 multiprocessors",
        "emitted": {"kernels": ran, "of": len(emitted), "failures": failures},
        "tails": records,
    }
    given.report.write_text(json.dumps(report, indent=1) + "\n")
    wrong = sum(bool(one["wrong"]) or "refused" in one for one in records)
    print(f"{len(records)} tails, {wrong} wrong or refused; {ran} of {len(emitted)} kernels as emitted text, {len(failures)} differ")
    return 1 if wrong or failures or ran < len(emitted) else 0


if __name__ == "__main__":
    sys.exit(main())
