#!/usr/bin/env python3
"""Convolutions that host their chain, on a GPU: one kernel of EpiFuse beside the bare convolution of cuDNN, the same and then EpiFuse's chain, cuDNN's
own epilogue, torch.compile and eager PyTorch, in one run.

    bench/convolutions.py                                  # everything, to $OUT/convolutions.json
    bench/convolutions.py --cases '56×56.* bare' --dtypes f16
    bench/convolutions.py --dry-run                        # plans of all cases, for an H100; needs no GPU

All tensors are channels-last and random. Results are compared with PyTorch's own convolution in f64 first; what is wrong is not timed. cuDNN measures
its algorithms (torch.backends.cudnn.benchmark). All contestants are captured in CUDA graphs, and replayed in turn; medians. ./dev bench convolutions
runs this, with what it needs.
"""
import dataclasses
import functools
import sys

import package_cases
import products
from gpu_timing import Torch, torch_dtype, wait
from products import LAUNCHES, Chain, record_of

torch = functional = None  # set by use_torch()

DTYPES = ("f16", "bf16")
COMPARED = 8  # images at once, in f64
CHAINS = [  # the texts have {how}: the convolution's numbers
    Chain("bare", "conv2d(x, w, {how})", "{p}", lambda p: p),
    Chain("relu(x + b + r)", "relu(conv2d(x, w, b, {how}) + r)", "relu({p} + b[:, None, None] + r)",
          lambda p, b, r: functional.relu(p + b[:, None, None] + r), "br",
          lambda case, x, w, b, r: torch.cudnn_convolution_add_relu(x, w, r, 1, b, [case.stride] * 2, [case.padding] * 2, [1, 1], 1)),
    Chain("relu(x) + b", "relu(conv2d(x, w, {how})) + b[:, None, None]", "relu({p}) + b[:, None, None]",
          lambda p, b: functional.relu(p) + b[:, None, None], "b"),
]


@dataclasses.dataclass(frozen=True)
class Case:
    images: tuple  # batch, channels, height, width
    filters: int
    kernel: int
    stride: int
    padding: int
    chain: Chain

    @property
    def name(self):
        stride = f", stride {self.stride}" if self.stride > 1 else ""
        return f"{'×'.join(map(str, self.images))}, {self.filters} of {self.kernel}×{self.kernel}{stride}, {self.chain.name}"

    def result(self):
        pixels = ((extent + 2 * self.padding - self.kernel) // self.stride + 1 for extent in self.images[2:])
        return (self.images[0], self.filters, *pixels)

    def shapes(self):
        known = {"b": (self.filters,), "r": self.result()}
        window = (self.filters, self.images[1], self.kernel, self.kernel)
        return {"x": self.images, "w": window} | {name: known[name] for name in self.chain.operands}

    def text(self, _dtype):
        return self.chain.text.format(how=f"stride={self.stride}, padding={self.padding}")

    def operands(self, dtype):
        made = {}
        for name, shape in self.shapes().items():
            size = (self.images[1] * self.kernel**2) ** -0.5 if name == "w" else 1  # results of about 1, as a layer's
            value = (torch.randn(shape, device="cuda") * size).to(torch_dtype(dtype))
            made[name] = value.to(memory_format=torch.channels_last) if value.dim() == 4 else value
        return made

    def convolve(self, x, w):
        """PyTorch's: cuDNN's, unless that is switched off."""
        return functional.conv2d(x, w, None, self.stride, self.padding)

    def flops(self):
        batch, filters, height, width = self.result()
        return 2 * batch * filters * height * width * self.images[1] * self.kernel**2


SHAPES = [  # images, filters, kernel, stride, padding
    ((32, 256, 56, 56), 256, 3, 1, 1),
    ((32, 256, 56, 56), 512, 3, 2, 1),
    ((32, 64, 112, 112), 128, 3, 1, 1),
    ((32, 256, 56, 56), 1024, 1, 1, 0),
    ((64, 512, 14, 14), 512, 3, 1, 1),
    ((64, 512, 7, 7), 512, 3, 1, 1),
    ((128, 32, 256, 256), 32, 3, 1, 0),
    ((128, 64, 128, 128), 128, 3, 1, 0),  # examples 1 and 4
]
CASES = [Case(*shape, chain) for shape in SHAPES for chain in CHAINS]


def use_torch():
    global torch, functional
    products.use_torch()
    torch, functional = products.torch, products.functional
    torch.backends.cudnn.benchmark = True


# ---- one case


def of_torch(case):
    """PyTorch's functions of the operands: convolution and chain, and the convolution alone."""

    def alone(operands):
        return case.convolve(operands["x"], operands["w"])

    def both(operands):
        return case.chain.function(alone(operands), *[operands[name] for name in case.chain.operands])

    return both, alone


def contestants_of(case, tail, sets, options):
    import epifuse

    behind = None if case.chain.name == "bare" else epifuse.compile(case.chain.behind.format(p="p"))
    by_torch, convolve = of_torch(case)
    made = package_cases.beside_product(tail, behind, convolve, by_torch, sets, options)
    if case.chain.fused:
        made["library"] = Torch(lambda operands: case.chain.fused(case, **operands), sets)
    return made


def worst_difference(case, dtype, found, operands, is_one_kernel):
    """From the chain in f64, in units of the tolerance; raises Wrong. PyTorch's own convolution is used, not cuDNN's. A few images at once: in f64 all
    would take four times the memory."""
    worst = 0.0
    for begin in range(0, case.images[0], COMPARED):
        some = slice(begin, begin + COMPARED)
        x, *others = (operands[name][some] if operands[name].dim() == 4 else operands[name] for name in ("x", *case.chain.operands))
        with torch.backends.cudnn.flags(enabled=False):
            convolved = case.convolve(x.double(), operands["w"].double())
        exact = case.chain.function(convolved, *[other.double() for other in others])
        worst = max(worst, products.worst_difference([found[some]], [exact], dtype, is_one_kernel))
    return worst


def run_case(item, options):
    case, dtype = item
    tail, sets = package_cases.prepared(case, dtype)
    (first,) = sets[0]
    found = tail(**{name: first[name] for name in tail.inputs})
    wait("EpiFuse's kernel")
    plan = plan_of(case, dtype)
    error = worst_difference(case, dtype, found, first, plan.schedule == "gemm")
    del found
    torch.cuda.empty_cache()
    known = {"error_in_tolerances": error, "plan": package_cases.line_of_product(plan), "flops": case.flops()}
    contestants = contestants_of(case, tail, sets, options)
    return record_of(item) | known | package_cases.timed_beside_product(contestants, len(sets), LAUNCHES * len(sets), options.seconds, {})


def plan_of(case, dtype):
    import epifuse

    def described(shape):
        return f"{dtype}[{','.join(map(str, shape))}]" + (":nhwc" if len(shape) == 4 else "")

    tail, shapes = epifuse.compile(case.text(dtype)), case.shapes()
    return tail.plan(**{name: described(shapes[name]) for name in tail.inputs})


# ---- all of them


def warm(item):
    case, dtype = item
    if case.chain.name != "bare":
        by_torch, _ = of_torch(case)
        torch.compile(by_torch, dynamic=False)(case.operands(dtype))


if __name__ == "__main__":
    outcome = functools.partial(package_cases.line_of_record, lambda seconds: f"cuDNN {seconds['product'] * 1e3:.4f} ms", last="plan")
    sys.exit(package_cases.main(__file__, __doc__, CASES, record_of=record_of, run=run_case, warm=warm,
                                line_of=lambda case, dtype: package_cases.line_of_product(plan_of(case, dtype)), use_torch=use_torch,
                                dtypes=DTYPES, outcome=outcome))
