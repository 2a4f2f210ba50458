"""Losses of 200 steps of training, of ours beside eager's: test_training.py bounds them, gradients.py reports them."""

from __future__ import annotations

import copy
from typing import Any, Callable, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import ResNet, Transformer

import epifuse

STEPS = 200
# Neither momentum nor relu: with them what a rounding does grows from 1e-7 to 1e-1 in 200 steps (relu's derivative jumps
# where a rounding changes a sign), and no bound would say anything.
MODELS: dict[str, Callable[[], nn.Module]] = {"Transformer": Transformer, "ResNet": lambda: ResNet(F.silu)}
PRODUCERS = ("inductor", "eager")


def train(model: Any, run: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(STEPS):
        inputs, labels = type(model).data(step % 10)
        loss = F.cross_entropy(run(inputs.to(dtype) if inputs.is_floating_point() else inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def nudged(model: nn.Module, seed: int) -> nn.Module:
    """The model with every weight moved by up to half a unit of its last place: by what rounding may do."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for one in model.parameters():
            one.mul_(1 + (torch.rand(one.shape, generator=generator) - 0.5) * torch.finfo(one.dtype).eps)
    return model


class Losses(NamedTuple):
    """By step. `exact`: of the run in f64. `rounding`: the furthest that eager's runs in f32, from weights that differ by
    roundings, have been from it so far. `reports`: of the graphs that ours ran."""

    exact: torch.Tensor
    rounding: torch.Tensor
    found: torch.Tensor
    reports: list[Any]

    def distance(self) -> float:
        """The furthest from f64 that ours is, of what rounding does to eager's."""
        floor = torch.finfo(torch.float32).eps / 2 * self.exact  # the loss itself is a number of f32
        return ((self.found - self.exact).abs() / (self.rounding + floor)).max().item()


def losses(name: str, producers: str) -> Losses:
    torch.manual_seed(0)
    model = MODELS[name]()
    exact = train(wide := copy.deepcopy(model).double(), wide, torch.float64)
    runs = [nudged(copy.deepcopy(model), seed) for seed in range(3)]
    rounding = torch.stack([(train(one, one) - exact).abs() for one in runs]).amax(0).cummax(0).values
    before = len(epifuse.reports())
    found = train(model, torch.compile(model, backend=epifuse.backend, options={"producers": producers}))
    return Losses(exact, rounding, found, list(epifuse.reports())[before:])
