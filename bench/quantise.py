#!/usr/bin/env python3
"""Quantising tails of a language model, on a GPU: EpiFuse, a copy of the same bytes, torch.compile and eager PyTorch, in one run.

    bench/quantise.py                                      # everything, to $OUT/quantise.json
    bench/quantise.py --cases 'cache' --no-compile
    bench/quantise.py --dry-run                            # plans of all cases, for an H100; needs no GPU

Activations are bf16. The copy moves every operand and every result once. What is written is compared with the chain in f64 first: a number that was quantised
may differ by a rounding of its type, of its block's scale. What is wrong is not timed. All contestants are captured in CUDA graphs, and replayed in turn;
medians. ./dev bench quantise runs this, with what it needs. What kernels move and spend without a GPU: quantise_bytes.py.
"""

import dataclasses
import sys

import gpu_timing
import package_cases
from gpu_timing import Wrong, torch_dtype

torch = functional = None  # set by use_torch()

FACTOR = 1.05  # of the copy: what a kernel may take

ROWS, COLUMNS = 8192, 7168
HEADS, WIDTH = 32, 128
EXPERTS = 8
WIDE = {"gate": (ROWS, COLUMNS), "up": (ROWS, COLUMNS)}
RESIDUAL = {"x": (ROWS, COLUMNS), "r": (ROWS, COLUMNS), "w": (COLUMNS,)}
OF_HEADS = {"heads": (ROWS, HEADS, WIDTH), "wh": (WIDTH,), "cosines": (ROWS, WIDTH // 2), "sines": (ROWS, WIDTH // 2), "positions": (ROWS, 1)}
CACHES = {"slots": (ROWS,), "keys": (ROWS, HEADS, WIDTH), "scales": (ROWS, HEADS, 1)}
MOST = {"f8e4m3": 448.0, "i8": 127.0}
# Of what is not bf16: the type, and how random numbers are made.
SMALL = lambda shape: torch.rand(shape, device="cuda") * 0.1 + 0.01
ORDER = lambda shape: torch.randperm(shape[0], device="cuda").reshape(shape)
OPERANDS = {
    "k": ("f32", SMALL),
    "row": ("f32", SMALL),
    "column": ("f32", SMALL),
    "bias": ("f32", SMALL),
    "product": ("i32", lambda shape: torch.randint(-9999, 9999, shape, device="cuda")),
    "cosines": ("f32", lambda shape: torch.rand(shape, device="cuda") * 2 - 1),
    "sines": ("f32", lambda shape: torch.rand(shape, device="cuda") * 2 - 1),
    "positions": ("i32", ORDER),
    "slots": ("i32", ORDER),
    "keys": ("f8e4m3", lambda shape: torch.zeros(shape, device="cuda")),
    "scales": ("f32", lambda shape: torch.zeros(shape, device="cuda")),
    "ids": ("i32", lambda shape: torch.randint(0, ROWS * EXPERTS // 2, shape, device="cuda")),
    "weights": ("f32", SMALL),
}


@dataclasses.dataclass(frozen=True)
class Tail(package_cases.Case):
    exact: object = None  # its numbers in f64, before they are quantised, one for each result that has numbers
    scaled: tuple = ()  # of these results: which result has the scales, or None; and how many elements share one
    saturates: bool = False  # a scale is a power of two that the largest number may not fit

    def type_of(self, name, dtype):
        return OPERANDS.get(name, (dtype,))[0]

    def operands(self, dtype):
        made = []
        for name, shape in self.shapes.items():
            _, draw = OPERANDS.get(name, (dtype, lambda shape: torch.randn(shape, device="cuda")))
            made.append(draw(shape).to(torch_dtype(self.type_of(name, dtype))))
        return made


# ---- in PyTorch


def gated(gate, up):
    return functional.silu(gate.float()) * up.float()


def normed(x, r, w):
    h = x + r
    return h, functional.rms_norm(h.float(), (COLUMNS,), w.float(), 1e-6)


def rotated(heads, wh, cosines, sines, positions):
    y = functional.rms_norm(heads.float(), (WIDTH,), wh.float(), 1e-6)
    a, b = y.chunk(2, -1)
    at = positions.reshape(-1).long()
    c, s = cosines[at][:, None, :], sines[at][:, None, :]
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def cast(x, dtype):
    most = MOST[dtype]
    return (x.round() if dtype == "i8" else x).clamp(-most, most).to(torch_dtype(dtype))


def blocks_of(x, size):
    return x.unflatten(-1, (-1, size))


def quantised(x, dtype, size):
    blocks = blocks_of(x, size)
    scale = (blocks.abs().amax(-1, keepdim=True) / MOST[dtype]).clamp(min=1e-30)
    return cast(blocks / scale, dtype).flatten(-2), scale.squeeze(-1)


def mx_quantised(x):
    blocks = blocks_of(x, 32)
    exponent = torch.floor(torch.log2(blocks.abs().amax(-1, keepdim=True))) - 8
    return cast(blocks * torch.exp2(-exponent), "f8e4m3").flatten(-2), torch.exp2(exponent.squeeze(-1)).to(torch.float8_e8m0fnu)


def into_cache(heads, wh, cosines, sines, positions, slots, keys, scales):
    q, s = quantised(rotated(heads, wh, cosines, sines, positions), "f8e4m3", WIDTH)
    keys.view(torch.uint8).index_copy_(0, slots.long(), q.view(torch.uint8))
    scales.index_copy_(0, slots.long(), s)
    return keys, scales


def mixed(expert, ids, weights, r):
    return ((expert[ids.long()].float() * weights[..., None]).sum(1) + r.float()).to(r.dtype)


def by_slots(y, slots):
    return torch.zeros_like(y).index_copy_(0, slots.long(), y)


GATE, NORM = "silu(gate) * up", "h = x + r; y = rms_norm(h, w, eps=1e-6)"
ROPE = "rope(rms_norm(heads, wh, eps=1e-6), cosines, sines, positions)"
CASES = [
    Tail("gate to fp8, static scale", f"cast({GATE} * k, f8e4m3)", WIDE | {"k": ()}, lambda gate, up, k: cast(gated(gate, up) * k, "f8e4m3"),
         exact=lambda gate, up, k: [functional.silu(gate) * up * k], scaled=((None, 1),)),
    Tail("gate to fp8 per 1x128", f"q, s = quantize({GATE}, f8e4m3, 128); return q, s", WIDE, lambda gate, up: quantised(gated(gate, up), "f8e4m3", 128),
         exact=lambda gate, up: [functional.silu(gate) * up], scaled=((1, 128),)),
    Tail("gate to int8 per row", f"q, s = quantize({GATE}, i8); return q, s", WIDE, lambda gate, up: quantised(gated(gate, up), "i8", COLUMNS),
         exact=lambda gate, up: [functional.silu(gate) * up], scaled=((1, COLUMNS),)),
    Tail("gate to MXFP8", f"q, s = mx_quantize({GATE}, f8e4m3); return q, s", WIDE, lambda gate, up: mx_quantised(gated(gate, up)),
         exact=lambda gate, up: [functional.silu(gate) * up], scaled=((1, 32),), saturates=True),
    Tail("residual, norm to fp8 per row", f"{NORM}; q, s = quantize(y, f8e4m3); return h, q, s", RESIDUAL,
         lambda x, r, w: (normed(x, r, w)[0], *quantised(normed(x, r, w)[1], "f8e4m3", COLUMNS)),
         exact=lambda x, r, w: [x + r, functional.rms_norm(x + r, (COLUMNS,), w, 1e-6)], scaled=((None, 1), (2, COLUMNS))),
    Tail("residual, norm to MXFP8", f"{NORM}; q, s = mx_quantize(y, f8e4m3); return h, q, s", RESIDUAL,
         lambda x, r, w: (normed(x, r, w)[0], *mx_quantised(normed(x, r, w)[1])),
         exact=lambda x, r, w: [x + r, functional.rms_norm(x + r, (COLUMNS,), w, 1e-6)], scaled=((None, 1), (2, 32)), saturates=True),
    Tail("i32 product to bf16", "cast(product * row * column + bias, bf16)",
         {"product": (ROWS, COLUMNS), "row": (ROWS, 1), "column": (COLUMNS,), "bias": (COLUMNS,)},
         lambda product, row, column, bias: (product.float() * row * column + bias).bfloat16(),
         exact=lambda product, row, column, bias: [product * row * column + bias], scaled=((None, 1),)),
    Tail("norm of heads, rope to bf16", f"cast({ROPE}, bf16)", OF_HEADS, lambda *given: rotated(*given).bfloat16(),
         exact=lambda *given: [rotated(*given)], scaled=((None, 1),)),
    Tail("norm of heads, rope to fp8 per head", f"q, s = quantize({ROPE}, f8e4m3); return q, s", OF_HEADS,
         lambda *given: quantised(rotated(*given), "f8e4m3", WIDTH), exact=lambda *given: [rotated(*given)], scaled=((1, WIDTH),)),
    Tail("norm of heads, rope to fp8 per head, into a paged cache",
         f"q, s = quantize({ROPE}, f8e4m3); return index_copy(keys, 0, slots, q), index_copy(scales, 0, slots, s)", OF_HEADS | CACHES, into_cache,
         exact=lambda *given: [by_slots(rotated(*given[:5]), given[5])], scaled=((1, WIDTH),), out=("keys", "scales")),
    Tail("sum over 8 experts, residual to bf16", "cast(sum(take(expert, ids) * weights[..., None], 1) + r, bf16)",
         {"expert": (ROWS * EXPERTS // 2, COLUMNS), "ids": (ROWS // 2, EXPERTS), "weights": (ROWS // 2, EXPERTS), "r": (ROWS // 2, COLUMNS)}, mixed,
         exact=lambda expert, ids, weights, r: [(expert[ids.long()] * weights[..., None]).sum(1) + r], scaled=((None, 1),)),
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
    return package_cases.known_of(case, dtype, "quantise", FACTOR)


def spacing_of(dtype, value):
    """How far apart numbers of the type lie around a value, at most."""
    if dtype == torch.int8:
        return torch.ones_like(value)
    bits, least = {torch.float8_e4m3fn: (3, 2.0**-9), torch.bfloat16: (7, 2.0**-126)}[dtype]
    return (value.abs() * 2.0**-bits).clamp(min=least)


def check(case, found, inputs):
    """The worst difference, in what one rounding may make."""
    worst = 0.0
    exact = case.exact(*[x.double() if x.is_floating_point() and x.dtype != torch.float8_e4m3fn else x for x in inputs])
    numbers = [result for k, result in enumerate(found) if k not in {scales for scales, _ in case.scaled}]
    for mine, right, (scales, size) in zip(numbers, exact, case.scaled, strict=True):
        scale = 1.0 if scales is None else found[scales].float().double().reshape(*right.shape[:-1], -1).repeat_interleave(size, -1)
        stored = right / scale
        allowed = spacing_of(mine.dtype, stored) * 0.51 + stored.abs() * (2.0**-3 if case.saturates and scales is not None else 1e-5)
        allowed += 1e-6  # what f32 leaves of terms that cancel
        error = ((mine.float().double() - stored).abs() / allowed).max().item()
        if not error <= 1:
            raise Wrong(f"{case.name}: a number is off by {error:.3g} times what one rounding may make")
        worst = max(worst, error)
    return worst


def run_case(item, options):
    case, dtype = item
    return package_cases.timed_tail(
        case, dtype, options, record_of(item), lambda found, inputs: {"error_in_roundings": check(case, found, inputs)}
    )


if __name__ == "__main__":
    sys.exit(package_cases.main(__file__, __doc__, CASES, record_of=record_of, run=run_case, warm=package_cases.warm_tail,
                                line_of=package_cases.line_of_tail, use_torch=use_torch, dtypes=("bf16",)))
