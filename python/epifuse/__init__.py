"""EpiFuse: the chain of cheap operations after a GEMM or a convolution as one CUDA kernel.

    tail = epifuse.compile("(minimum(x, 0.5) + bias) * 2")
    y = tail(conv, bias=bias)               # torch, CuPy and JAX on the GPU; NumPy and torch on the CPU

    @epifuse.fuse                           # the same, traced from a function
    def tail(x, bias):
        return torch.relu(x + bias) * 2

    model = torch.compile(model, backend="epifuse")

Bad input is a ValueError or a TypeError, what fails at run time an epifuse.Error, with the library's text.
"""

from __future__ import annotations

from typing import Any

from ._arrays import Packed, spec
from ._core import doctor, kernel_stats, stats
from ._core import version as __version__
from ._errors import Error
from ._gradient import Gradient, gradient
from ._random import dropout, rand_like
from ._tail import Plan, Tail, compile
from ._trace import Untraceable, fuse

__all__ = [
    "Error",
    "Gradient",
    "Packed",
    "Plan",
    "Tail",
    "Untraceable",
    "__version__",
    "backend",
    "compile",
    "doctor",
    "dropout",
    "fuse",
    "gradient",
    "kernel_stats",
    "rand_like",
    "reports",
    "spec",
    "stats",
]


_OLDEST_TORCH = (2, 7)


def backend(model: Any, example_inputs: list, **options: Any) -> Any:
    """The backend of torch.compile: `torch.compile(model, backend="epifuse")`, or `backend=epifuse.backend`."""
    import torch

    if tuple(map(int, torch.__version__.split(".")[:2])) < _OLDEST_TORCH:
        oldest = ".".join(map(str, _OLDEST_TORCH))
        raise Error(
            f"the backend epifuse needs PyTorch {oldest} or newer, found {torch.__version__}: "
            "install a newer one, or call the tails yourself (epifuse.compile)"
        )
    from ._torch_backend import backend as implementation

    return implementation(model, example_inputs, **options)


def reports() -> list:
    """What the torch.compile backend made of the graphs it was given in this process, the newest last: `kernels`,
    `fused`, `left` and `text` of each (_torch_backend.GraphReport). EPIFUSE_LOG=info prints the same."""
    import sys

    module = sys.modules.get("epifuse._torch_backend")
    return list(module.REPORTS) if module else []
