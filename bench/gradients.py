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
import dataclasses
import sys
import typing
import zlib

import gpu_timing
import package_cases
from gpu_timing import Torch, Wrong, bytes_of, difference, first_line, sets_for, torch_dtype, wait
from package_cases import as_tuple

torch = functional = None  # set by use_torch()

FACTOR = 1.10  # of the copy: what a backward kernel may take


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    chain: str
    shapes: dict  # operand -> shape, in the order of `function`
    wrt: tuple
    function: typing.Callable  # the same with PyTorch


ROWS, WEIGHT = (8192, 4096), (4096,)
IMAGES, CHANNELS = (64, 256, 28, 28), (256,)

CASES = [
    Case("gelu + bias", "gelu(x + b)", {"x": ROWS, "b": WEIGHT}, ("x", "b"), lambda x, b: functional.gelu(x + b)),
    Case("gelu + bias, dx", "gelu(x + b)", {"x": ROWS, "b": WEIGHT}, ("x",), lambda x, b: functional.gelu(x + b)),
    Case("silu · gate", "silu(x) * g", {"x": ROWS, "g": ROWS}, ("x", "g"), lambda x, g: functional.silu(x) * g),
    Case("layer_norm", "layer_norm(x, w, b)", {"x": ROWS, "w": WEIGHT, "b": WEIGHT}, ("x", "w", "b"),
         lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b)),
    Case("layer_norm, dx", "layer_norm(x, w, b)", {"x": ROWS, "w": WEIGHT, "b": WEIGHT}, ("x",),
         lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b)),
    Case("rms_norm", "rms_norm(x, w)", {"x": ROWS, "w": WEIGHT}, ("x", "w"), lambda x, w: functional.rms_norm(x, x.shape[-1:], w)),
    Case("rms_norm, dx", "rms_norm(x, w)", {"x": ROWS, "w": WEIGHT}, ("x",), lambda x, w: functional.rms_norm(x, x.shape[-1:], w)),
    Case("group_norm", "group_norm(x, 32, w, b)", {"x": IMAGES, "w": CHANNELS, "b": CHANNELS}, ("x", "w", "b"),
         lambda x, w, b: functional.group_norm(x, 32, w, b)),
    Case("group_norm, dx", "group_norm(x, 32, w, b)", {"x": IMAGES, "w": CHANNELS, "b": CHANNELS}, ("x",),
         lambda x, w, b: functional.group_norm(x, 32, w, b)),
    Case("silu(group_norm), dx", "silu(group_norm(x, 32, w, b))", {"x": IMAGES, "w": CHANNELS, "b": CHANNELS}, ("x",),
         lambda x, w, b: functional.silu(functional.group_norm(x, 32, w, b))),
    Case("softmax", "softmax(x, -1)", {"x": ROWS}, ("x",), lambda x: torch.softmax(x, -1)),
    Case("log_softmax", "log_softmax(x, -1)", {"x": ROWS}, ("x",), lambda x: torch.log_softmax(x, -1)),
    Case("batch_norm in training, dx",
         "m = mean(x, axis=(0,2,3), keepdim=true); v = var(x, axis=(0,2,3), correction=0, keepdim=true); "
         "(x - m) * rsqrt(v + 1e-5) * along(w, x, 1) + along(b, x, 1)",
         {"x": IMAGES, "w": CHANNELS, "b": CHANNELS}, ("x",), lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True)),
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
        kind = torch_dtype(dtype)
        self.inputs = [torch.randn(shape, device="cuda").to(kind) for shape in case.shapes.values()]
        by_name = dict(zip(case.shapes, self.inputs))
        ordered = [by_name[name] for name in gradient.forward.inputs]
        with torch.no_grad():
            results = as_tuple(gradient.forward(*ordered))
        self.upstream = torch.randn(results[0].shape, device="cuda").to(kind)
        self.arrays = gradient.backward_arrays(ordered, results, [self.upstream] + [None] * (len(results) - 1))
        self.dtypes = gradient.backward_dtypes(ordered)
        self.read = [array for array, operand in zip(self.arrays, gradient.operands) if operand.source != "shape"]


class Autograd:
    """PyTorch's backward pass of each set. The forward passes run on the stream that graphs are captured on, since a backward pass runs where its
    forward pass did."""

    def __init__(self, case, function, sets):
        stream = torch.cuda.graph.default_capture_stream = torch.cuda.graph.default_capture_stream or torch.cuda.Stream()
        self.ends = []
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for one in sets:
                leaves = [x.detach().requires_grad_(name in case.wrt) for name, x in zip(case.shapes, one.inputs)]
                self.ends.append((function(*leaves), [leaf for leaf in leaves if leaf.requires_grad], one.upstream))
        torch.cuda.synchronize()

    def __call__(self, i):
        result, leaves, upstream = self.ends[i]
        return torch.autograd.grad(result, leaves, upstream, retain_graph=True)


def autograd_of(case, inputs, upstream):
    leaves = [x.detach().requires_grad_(name in case.wrt) for name, x in zip(case.shapes, inputs)]
    return torch.autograd.grad(case.function(*leaves), [leaf for leaf in leaves if leaf.requires_grad], upstream)


def check(case, dtype, one, gradient):
    """The worst differences from f64, EpiFuse's and eager PyTorch's, in units of the tolerance. Raises Wrong where EpiFuse's is above 1 and above
    PyTorch's: a gradient that reads a stored result has its rounding."""
    found = as_tuple(gradient.backward(*one.arrays, dtype=one.dtypes))
    wait("EpiFuse's kernel")
    exact = autograd_of(case, [x.double() for x in one.inputs], one.upstream.double())
    theirs = max(difference(mine, right, dtype)[0] for mine, right in zip(autograd_of(case, one.inputs, one.upstream), exact))
    worst = 0.0
    for name, mine, right in zip(case.wrt, found, exact, strict=True):
        error, absolute = difference(mine, right, dtype)
        if error > max(1, theirs):
            raise Wrong(f"d{name} is wrong: off by {absolute:.3g}, {error:.3g} times the tolerance")
        worst = max(worst, error)
    return {"epifuse": worst, "eager": theirs}


def run_case(item, options):
    import epifuse

    case, dtype = item
    torch.manual_seed(zlib.crc32(case.name.encode()))
    gradient = epifuse.gradient(epifuse.compile(case.chain), list(case.wrt))
    first = Passes(case, dtype, gradient)
    plan = gradient.backward.plan(*first.arrays, dtype=first.dtypes)
    errors = check(case, dtype, first, gradient)
    grads = as_tuple(gradient.backward(*first.arrays, dtype=first.dtypes))
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
    """The backward chain, or the forward one where the package cannot be imported."""
    try:
        import epifuse
    except ImportError:
        return case.chain
    return epifuse.gradient(epifuse.compile(case.chain), list(case.wrt)).backward.text


if __name__ == "__main__":
    sys.exit(package_cases.main(__file__, __doc__, CASES, record_of=record_of, run=run_case, warm=warm, line_of=line_of, use_torch=use_torch))
