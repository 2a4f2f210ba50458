#!/usr/bin/env python3
"""Backward passes on a GPU: EpiFuse's kernel, a copy of the same bytes, torch.compile and eager PyTorch, in one run.

    bench/gradients.py                                     # everything, to $OUT/gradients.json
    bench/gradients.py --cases 'norm' --dtypes bf16 --no-compile
    bench/gradients.py --dry-run                           # the backward chains of all cases; needs no GPU

A case is one backward pass: gradients of the results come in, gradients of the named operands go out. The copy moves what the pass must: each
tensor that it reads once, each gradient once. Gradients are compared with PyTorch's in f64 first; what is wrong is not timed. PyTorch's
contestants are torch.autograd.grad of a forward pass that ran before. All are captured in CUDA graphs, and replayed in turn; medians.
./dev bench gradients runs this, with what it needs.
"""
import sys
import zlib

import gpu_timing
import package_cases
from gpu_timing import Torch, as_list, bytes_of, difference, first_line, sets_for, torch_dtype, wait
from package_cases import Case, worst_of

torch = functional = None  # set by use_torch()

FACTOR = 1.10  # of the copy: what a backward kernel may take

ROWS, WEIGHT = (8192, 4096), (4096,)
IMAGES, CHANNELS = (64, 256, 28, 28), (256,)

CASES = [
    Case("gelu + bias", "gelu(x + b)", {"x": ROWS, "b": WEIGHT}, lambda x, b: functional.gelu(x + b), ("x", "b")),
    Case("gelu + bias, dx", "gelu(x + b)", {"x": ROWS, "b": WEIGHT}, lambda x, b: functional.gelu(x + b), ("x",)),
    Case("silu · gate", "silu(x) * g", {"x": ROWS, "g": ROWS}, lambda x, g: functional.silu(x) * g, ("x", "g")),
    Case("layer_norm", "layer_norm(x, w, b)", {"x": ROWS, "w": WEIGHT, "b": WEIGHT},
         lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b), ("x", "w", "b")),
    Case("layer_norm, dx", "layer_norm(x, w, b)", {"x": ROWS, "w": WEIGHT, "b": WEIGHT},
         lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b), ("x",)),
    Case("rms_norm", "rms_norm(x, w)", {"x": ROWS, "w": WEIGHT}, lambda x, w: functional.rms_norm(x, x.shape[-1:], w), ("x", "w")),
    Case("rms_norm, dx", "rms_norm(x, w)", {"x": ROWS, "w": WEIGHT}, lambda x, w: functional.rms_norm(x, x.shape[-1:], w), ("x",)),
    Case("group_norm", "group_norm(x, 32, w, b)", {"x": IMAGES, "w": CHANNELS, "b": CHANNELS},
         lambda x, w, b: functional.group_norm(x, 32, w, b), ("x", "w", "b")),
    Case("group_norm, dx", "group_norm(x, 32, w, b)", {"x": IMAGES, "w": CHANNELS, "b": CHANNELS},
         lambda x, w, b: functional.group_norm(x, 32, w, b), ("x",)),
    Case("silu(group_norm), dx", "silu(group_norm(x, 32, w, b))", {"x": IMAGES, "w": CHANNELS, "b": CHANNELS},
         lambda x, w, b: functional.silu(functional.group_norm(x, 32, w, b)), ("x",)),
    Case("softmax", "softmax(x, -1)", {"x": ROWS}, lambda x: torch.softmax(x, -1), ("x",)),
    Case("log_softmax", "log_softmax(x, -1)", {"x": ROWS}, lambda x: torch.log_softmax(x, -1), ("x",)),
    Case("softmax over channels · w", "softmax(x, 1) * along(w, x, 1)", {"x": IMAGES, "w": CHANNELS},
         lambda x, w: torch.softmax(x, 1) * w[:, None, None], ("x", "w")),
    Case("batch_norm in training, dx",
         "m = mean(x, axis=(0,2,3), keepdim=true); v = var(x, axis=(0,2,3), correction=0, keepdim=true); "
         "(x - m) * rsqrt(v + 1e-5) * along(w, x, 1) + along(b, x, 1)",
         {"x": IMAGES, "w": CHANNELS, "b": CHANNELS}, lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True), ("x",)),
    Case("batch_norm in training",
         "m = mean(x, axis=(0,2,3), keepdim=true); v = var(x, axis=(0,2,3), correction=0, keepdim=true); "
         "(x - m) * rsqrt(v + 1e-5) * along(w, x, 1) + along(b, x, 1)",
         {"x": IMAGES, "w": CHANNELS, "b": CHANNELS}, lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True), ("x", "w", "b")),
    Case("least of group_norm", "amin(group_norm(x, 512, w, b), axis=1, keepdim=true)", {"x": (1024, 8192), "w": (8192,), "b": (8192,)},
         lambda x, w, b: functional.group_norm(x, 512, w, b).amin(1, keepdim=True), ("x", "w", "b")),
    Case("group_norm of max_pool2d", "group_norm(max_pool2d(tanh(x), 2), 8, w, b)", {"x": (128, 64, 64, 64), "w": (64,), "b": (64,)},
         lambda x, w, b: functional.group_norm(functional.max_pool2d(torch.tanh(x), 2), 8, w, b), ("x",)),
    Case("gelu(avg_pool2d), dx", "gelu(avg_pool2d(x, 2))", {"x": IMAGES}, lambda x: functional.gelu(functional.avg_pool2d(x, 2)), ("x",)),
]


def use_torch():
    global torch, functional
    import torch as module
    import torch._functorch.config as compiled
    import torch.nn.functional as functions
    torch, functional = module, functions
    compiled.donated_buffer = False  # a backward pass runs many times
    gpu_timing.use(torch)


# ---- one case


def record_of(item):
    case, dtype = item
    return package_cases.known_of(case, dtype, "gradients", FACTOR) | {"wrt": list(case.wrt)}


class Passes:
    """The operands of one set, the forward pass of EpiFuse, and what its backward takes."""

    def __init__(self, case, dtype, gradient):
        self.inputs = case.operands(dtype)
        ordered = case.in_order(gradient.forward.inputs, self.inputs)
        with torch.no_grad():
            results = as_list(gradient.forward(**dict(zip(gradient.forward.inputs, ordered))))
        self.upstream = torch.randn(results[0].shape, device="cuda").to(torch_dtype(dtype))
        self.arrays = gradient.backward_arrays(ordered, results, [self.upstream] + [None] * (len(results) - 1))
        self.dtypes = gradient.backward_dtypes(ordered)
        self.read = [array for array, operand in zip(self.arrays, gradient.operands) if operand.source != "shape"]


def forward_of(case, function, inputs, upstream):
    """What torch.autograd.grad takes: the result, the operands that want a gradient, the result's gradient."""
    leaves = [x.detach().requires_grad_(name in case.wrt) for name, x in zip(case.shapes, inputs)]
    return function(*leaves), [leaf for leaf in leaves if leaf.requires_grad], upstream


class Autograd:
    """PyTorch's backward pass of each set. The forward passes run on the stream that graphs are captured on, since a backward pass runs where its
    forward pass did."""

    def __init__(self, case, function, sets):
        stream = torch.cuda.graph.default_capture_stream = torch.cuda.graph.default_capture_stream or torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.forwards = [forward_of(case, function, one.inputs, one.upstream) for one in sets]
        torch.cuda.synchronize()

    def __call__(self, i):
        return torch.autograd.grad(*self.forwards[i], retain_graph=True)


def check(case, dtype, found, one):
    """The worst differences from f64, EpiFuse's and eager PyTorch's, in units of the tolerance. Raises Wrong where EpiFuse's is above 1 and above
    PyTorch's: a gradient that reads a stored result has its rounding."""
    exact = torch.autograd.grad(*forward_of(case, case.function, [x.double() for x in one.inputs], one.upstream.double()))
    eager = torch.autograd.grad(*forward_of(case, case.function, one.inputs, one.upstream))
    theirs = max(difference(mine, right, dtype)[0] for mine, right in zip(eager, exact))
    return {"epifuse": worst_of([f"d{name}" for name in case.wrt], found, exact, dtype, max(1, theirs)), "eager": theirs}


def run_case(item, options):
    import epifuse

    case, dtype = item
    torch.manual_seed(zlib.crc32(case.name.encode()))
    gradient = epifuse.gradient(epifuse.compile(case.chain), list(case.wrt))
    first = Passes(case, dtype, gradient)
    plan = gradient.backward.plan(*first.arrays, dtype=first.dtypes)
    grads = as_list(gradient.backward(*first.arrays, dtype=first.dtypes))
    wait("EpiFuse's kernel")
    errors = check(case, dtype, grads, first)
    traffic = bytes_of(first.read) + bytes_of(grads)
    moved = plan.bytes_read + plan.bytes_written
    largest = max(bytes_of([tensor]) for tensor in first.read)
    del grads
    count = sets_for(largest, traffic)
    sets = [first] + [Passes(case, dtype, gradient) for _ in range(count - 1)]
    torch.cuda.empty_cache()

    problems = {}
    contestants = {"epifuse": Torch(lambda i: gradient.backward(*sets[i].arrays, dtype=sets[i].dtypes), [(i,) for i in range(count)])}
    peers = {"eager": case.function} | ({} if options.no_compile else {"compile": torch.compile(case.function, dynamic=False)})
    for name, function in peers.items():
        try:
            contestants[name] = Torch(Autograd(case, function, sets), [(i,) for i in range(count)])
        except Exception as problem:
            problems[name] = first_line(problem)
    known = record_of(item) | {"moved_bytes": moved, "schedule": plan.schedule, "errors": errors}
    return known | package_cases.timed(contestants, traffic, count, options.seconds, problems)


def warm(item):
    import epifuse

    case, dtype = item
    one = Passes(case, dtype, epifuse.gradient(epifuse.compile(case.chain), list(case.wrt)))
    Autograd(case, torch.compile(case.function, dynamic=False), [one])(0)


def line_of(case, dtype):
    """The backward chain."""
    import epifuse

    return epifuse.gradient(epifuse.compile(case.chain), list(case.wrt)).backward.text


if __name__ == "__main__":
    sys.exit(package_cases.main(__file__, __doc__, CASES, record_of=record_of, run=run_case, warm=warm, line_of=line_of, use_torch=use_torch))
