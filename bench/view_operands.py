#!/usr/bin/env python3
"""Chains that read their operands through views, on a GPU: EpiFuse, a copy of the same bytes, torch.compile and eager PyTorch, in one run.

    bench/view_operands.py                                 # everything, to $OUT/view-operands.json
    bench/view_operands.py --cases 'halves' --dtypes bf16 --no-compile
    bench/view_operands.py --dry-run                       # plans of all cases, for an H100; needs no GPU

The copy moves what the chain must: each element that is read once, each result once. Results are compared with PyTorch's in f64 first; what
is wrong is not timed. All contestants are captured in CUDA graphs, and replayed in turn; medians. ./dev bench view-operands runs this, with what it needs.
"""
import sys

import gpu_timing
import package_cases
from gpu_timing import as_list
from package_cases import Case, worst_of

torch = functional = None  # set by use_torch()

FACTOR = 1.05  # of the copy: what a kernel may take

WIDE, HALF = (8192, 8192), (4096,)
IMAGES = (32, 64, 112, 112)


def rope(x, c, s):
    a, b = x.chunk(2, -1)
    return a * c - b * s, b * c + a * s


def rope_of_pairs(x, c, s):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)


def pooled(x):
    a, b = torch.maximum(x[..., ::2, ::2], x[..., ::2, 1::2]), torch.maximum(x[..., 1::2, ::2], x[..., 1::2, 1::2])
    return functional.relu(torch.maximum(a, b))


class OfTokens(Case):
    """Rows of a table at random places, `ids`."""

    def operands(self, dtype):
        rows = self.shapes["table"][0]
        return [torch.randint(0, rows, shape, device="cuda") if name == "ids" else torch.randn(shape, device="cuda").to(gpu_timing.torch_dtype(dtype))
                for name, shape in self.shapes.items()]

    def type_of(self, name, dtype):
        return "i64" if name == "ids" else dtype


CASES = [
    Case("SwiGLU of halves", "a, g = chunk(x, 2, -1); silu(a) * g", {"x": WIDE}, lambda x: functional.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]),
    Case("GEGLU of halves with biases", "y = x + b; gelu(y[..., :4096]) * y[..., 4096:]", {"x": WIDE, "b": (8192,)},
         lambda x, b: functional.gelu((x + b)[..., :4096]) * (x + b)[..., 4096:]),
    Case("gates side by side", "silu(x[..., ::2]) * x[..., 1::2]", {"x": WIDE}, lambda x: functional.silu(x[..., ::2]) * x[..., 1::2]),
    Case("rope of halves", "a, b = chunk(x, 2, -1); return a * c - b * s, b * c + a * s",
         {"x": (16, 2048, 16, 128), "c": (2048, 1, 64), "s": (2048, 1, 64)}, rope),
    Case("rope of pairs", "rope(x, c, s, interleaved=true)", {"x": (16, 2048, 16, 128), "c": (2048, 1, 64), "s": (2048, 1, 64)}, rope_of_pairs),
    Case("two side by side", "stack((relu(x), silu(y)), -1)", {"x": (8192, 4096), "y": (8192, 4096)},
         lambda x, y: torch.stack((functional.relu(x), functional.silu(y)), -1)),
    Case("heads to the front", "permute(x, (0, 2, 1, 3)) * 0.125", {"x": (16, 2048, 16, 128)}, lambda x: (x.permute(0, 2, 1, 3) * 0.125).contiguous()),
    Case("flipped rows", "relu(flip(x, (0,)) + b)", {"x": WIDE, "b": (8192,)}, lambda x, b: functional.relu(x.flip(0) + b)),
    Case("a part of each row", "rms_norm(x[..., :4096], w)", {"x": (8192, 4608), "w": HALF}, lambda x, w: functional.rms_norm(x[..., :4096], (4096,), w)),
    OfTokens("embedding and norm", "layer_norm(embedding(ids, table) + p, w, b)",
             {"ids": (16, 2048), "table": (50000, 1024), "p": (2048, 1024), "w": (1024,), "b": (1024,)},
             lambda ids, table, p, w, b: functional.layer_norm(functional.embedding(ids, table) + p, (1024,), w, b)),
    Case("pooling 2x2", "a = maximum(x[..., ::2, ::2], x[..., ::2, 1::2]); b = maximum(x[..., 1::2, ::2], x[..., 1::2, 1::2]); relu(maximum(a, b))",
         {"x": IMAGES}, pooled),
    Case("mish(max_pool2d 2)", "mish(max_pool2d(hardswish(x - 0.5), 2))", {"x": (32, 128, 126, 126)},
         lambda x: functional.mish(functional.max_pool2d(functional.hardswish(x - 0.5), 2))),
    Case("max_pool2d 3, stride 2", "relu(max_pool2d(x, 3, 2, 1))", {"x": IMAGES}, lambda x: functional.relu(functional.max_pool2d(x, 3, 2, 1))),
    Case("logsumexp(max_pool3d 2)", "relu(logsumexp(max_pool3d(x, 2), axis=1, keepdim=true))", {"x": (4, 64, 16, 64, 64)},
         lambda x: functional.relu(torch.logsumexp(functional.max_pool3d(x, 2), 1, keepdim=True))),
    Case("sums of avg_pool2d 4", "sum(sigmoid(avg_pool2d(x, 4)), axis=(1,2,3))", {"x": (128, 64, 96, 96)},
         lambda x: torch.sigmoid(functional.avg_pool2d(x, 4)).sum((1, 2, 3))),
    Case("sums of max_pool1d 2", "sum(max_pool1d(x, 2), axis=1) * 0.5", {"x": (2048, 32768)},
         lambda x: functional.max_pool1d(x[:, None], 2)[:, 0].sum(1) * 0.5),
    Case("pixels apart", "gelu(permute(reshape(x, (32, 64, 56, 2, 56, 2)), (0, 1, 3, 5, 2, 4)))", {"x": IMAGES},
         lambda x: functional.gelu(x.reshape(32, 64, 56, 2, 56, 2).permute(0, 1, 3, 5, 2, 4)).contiguous()),
]


def use_torch():
    global torch, functional
    import torch as module
    import torch.nn.functional as functions
    torch, functional = module, functions
    torch.set_grad_enabled(False)
    gpu_timing.use(torch)


# ---- one case


def record_of(item):
    case, dtype = item
    return package_cases.known_of(case, dtype, "views", FACTOR)


def check(case, dtype, found, inputs):
    exact = as_list(case.function(*[x.double() if x.is_floating_point() else x for x in inputs]))
    return worst_of([f"result {k}" for k in range(len(exact))], found, exact, dtype)


def run_case(item, options):
    case, dtype = item
    return package_cases.timed_tail(
        case, dtype, options, record_of(item), lambda found, inputs: {"error_in_tolerances": check(case, dtype, found, inputs)}
    )


if __name__ == "__main__":
    sys.exit(package_cases.main(__file__, __doc__, CASES, record_of=record_of, run=run_case, warm=package_cases.warm_tail,
                                line_of=package_cases.line_of_tail, use_torch=use_torch))
