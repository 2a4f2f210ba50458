"""The cases of view_cases.py as emitted text: PyTorch says what chains and their gradients give, the C++ test of emitted text runs them.
`view_cases.py --emitted BINARY` calls this; `./dev build ci emitted_test` builds the binary."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

import torch
import view_cases
from tails import as_written

import epifuse

TEST = "EmittedViews.CasesOfAFileAreWhatItSays"
RAN = re.compile(r"^(\d+) of (\d+) cases of a file ran$", re.M)
# Kernels of the test compute in f32, whatever type the operand has: its elements are halves, which each type holds.
TOLERANCE = view_cases.TOLERANCES[torch.float32]
TYPES = {torch.float64: "f32", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32",
         torch.uint8: "u8", torch.bool: "bool"}


def array(values: torch.Tensor) -> dict[str, Any]:
    return {"shape": list(values.shape), "values": values.double().flatten().tolist()}


def written(text: str, operands: dict[str, torch.Tensor], expected: torch.Tensor, scale: float = 1.0) -> dict[str, Any]:
    """A case as the C++ test reads it, whose operands are x0, x1, … It may err by roundings of the largest result, or of `scale`."""
    for number, name in enumerate(operands):
        text = re.sub(rf"\b{name}\b", f"x{number}", text)
    inputs = [{"type": TYPES[one.dtype], **array(one)} for one in operands.values()]
    largest = expected.double().abs().max().item() if expected.numel() else 0.0
    return {"text": text, "inputs": inputs, **array(expected), "tolerance": TOLERANCE * max(scale, largest)}


def forward(case: view_cases.Case) -> dict[str, Any]:
    exact = {name: one.double() if one.is_floating_point() else one for name, one in case.operands.items()}
    return written(case.text, case.operands, case.function(**exact))


def backward(case: view_cases.Case) -> dict[str, Any]:
    exact = {name: one.double() if one.is_floating_point() else one for name, one in case.operands.items()}
    leaves = {name: one.clone().requires_grad_(name in case.wrt) for name, one in exact.items()}
    result = case.function(**leaves)
    weights = torch.arange(1, result.numel() + 1, dtype=torch.float64).reshape(result.shape) / 4
    want = torch.autograd.grad(result, [leaves[name] for name in case.wrt], weights, allow_unused=True)[0]
    want = torch.zeros_like(exact[case.wrt[0]]) if want is None else want
    gradient = epifuse.gradient(as_written(case.text), case.wrt)
    inputs = [exact[name] for name in gradient.forward.inputs]
    found = gradient.forward(*inputs)
    arrays = gradient.backward_arrays(inputs, list(found) if isinstance(found, tuple) else [found], [weights])
    operands = dict(zip(gradient.backward.inputs, map(torch.as_tensor, arrays)))
    # In f32 the slope of tanh near 1 errs by a rounding of 1, of which each weight is a multiple.
    return written(gradient.backward.text, operands, want, max(1.0, weights.max().item()))


def drawn(operation: str, count: int, seed: int) -> tuple[list[dict[str, Any]], int]:
    """So many cases of an operation, gradients in turn where there are some; and how many of them are gradients."""
    forwards: list[dict[str, Any]] = []
    gradients: list[dict[str, Any]] = []

    def keep(case: view_cases.Case) -> str:
        outcome = view_cases.judge(case)  # an AssertionError here is one of view_cases.py
        if not outcome.startswith("refused") and case.function(**case.operands).numel() > 0:
            if len(forwards) < count:
                forwards.append(forward(case))
            if outcome == "gradient" and len(gradients) < count // 2:
                gradients.append(backward(case))
        return outcome

    view_cases.run(operation, 5 * count, seed, keep)
    return gradients + forwards[: count - len(gradients)], len(gradients)


def ran(binary: pathlib.Path, cases: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """How many kernels ran, and the failures of the test."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(cases, file)
        file.flush()
        environment = {**os.environ, "EPIFUSE_VIEW_CASES": file.name}
        done = subprocess.run([binary, f"--gtest_filter={TEST}"], env=environment, capture_output=True, text=True, check=False)
    counts = RAN.search(done.stdout)
    if counts is None:
        sys.exit(done.stdout + done.stderr)
    return int(counts[1]), re.findall(r"Failure\n(.*?)(?=\n\S*: Failure|\n\[)", done.stdout, re.S)


def report(binary: pathlib.Path, count: int, seed: int) -> dict[str, Any]:
    """Of so many cases, half of them gradients where there are some."""
    each = -(-count // len(view_cases.OPERATIONS))
    cases: list[dict[str, Any]] = []
    gradients = 0
    for number, operation in enumerate(view_cases.OPERATIONS):
        some, backwards = drawn(operation, each, seed + number)
        cases += some
        gradients += backwards
    kernels, failures = ran(binary, cases)
    print(kernels, "cases as emitted text, of them", gradients, "gradients;", len(failures), "differ")
    return {"cases": kernels, "gradients": gradients, "refused": len(cases) - kernels, "failures": failures}
