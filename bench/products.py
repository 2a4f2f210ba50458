#!/usr/bin/env python3
"""Matrix products that host their chain, on a GPU: one kernel of EpiFuse beside the bare product of cuBLASLt, by PyTorch's choice and by the fastest of
its kernels, the product and then EpiFuse's chain, cuBLASLt's own epilogue, torch.compile, its max-autotune and eager PyTorch, in one run.

    bench/products.py                                      # everything, to $OUT/products.json
    bench/products.py --cases 'gelu' --dtypes bf16 --autotune
    bench/products.py --dry-run                            # plans of all cases, for an H100; needs no GPU

Operands are random. Results are compared with PyTorch's in f64 first; what is wrong is not timed. All contestants are captured in CUDA graphs, and
replayed in turn; medians. PyTorch calls cuBLASLt's first choice for a product; `best` is the fastest of all that its heuristics propose.
max-autotune takes half a minute for each case, so few have it by default. ./dev bench products runs this, with what it needs.
"""
import argparse
import contextlib
import dataclasses
import functools
import re
import statistics
import sys
import typing

import bridge
import gpu_timing
import package_cases
import quantise
from gpu_timing import Torch, Wrong, as_list, torch_dtype, wait
from package_cases import worst_of

torch = functional = None  # set by use_torch()

FACTOR = 1.02  # of the bare product: what it may take with any chain
TF32 = "tf32"  # products of f32 numbers that are rounded to TF32
BLOCKS = "f8e4m3-128"  # float8 numbers with scales of 1x128 and of 128x128 numbers, as DeepSeek-V3 has them
DTYPES = ("bf16", "f16", "f8e4m3", "i8")
NARROW = ("f8e4m3", BLOCKS, "i8")  # whose products are scaled, and whose results are bf16
LAUNCHES = 4  # of each set of operands, in a graph
RIGHT = {"f8e4m3": 8, BLOCKS: 8,  # units of the tolerance: tensor cores keep about 14 bits of the sums of these
         "tf32": 4}  # numbers of 10 bits are rounded before they are multiplied: a chain of two products multiplies what both are off
ROUNDED = 3  # of a product that is rounded before its chain: exp(5.5) is off by 2 % then
RIGHT_IN_F32 = 8  # likewise, of results in f32, which show how tensor cores add thousands of numbers
CANCELLED = 0.004  # of a float8 number whose block has a scale of 1/100: what 8192 products of about 1/90 leave in f32 where they cancel
MOST_KERNELS = 16  # of cuBLASLt, for one product


@dataclasses.dataclass(frozen=True)
class Chain:
    name: str
    text: str  # of EpiFuse, with the operands' names of `operands`
    behind: str  # the same behind the product {p}
    function: typing.Callable  # PyTorch's, of the product and the others: a result, or a tuple of them
    operands: str = ""  # beside x and w, by letter: b and g along columns, r of the result's size
    fused: typing.Callable | None = None  # what PyTorch passes to cuBLASLt's own epilogue


CHAINS = [
    Chain("bare", "linear(x, w)", "{p}", lambda p: p),
    Chain("relu(x + b)", "relu(linear(x, w, b))", "relu({p} + b)", lambda p, b: functional.relu(p + b), "b",
          lambda x, w, b: torch._addmm_activation(b, x, w.t())),
    Chain("gelu(x + b) + r", "gelu(linear(x, w, b)) + r", "gelu({p} + b) + r", lambda p, b, r: functional.gelu(p + b) + r, "br"),
    Chain("mish(mish(x))", "mish(mish(linear(x, w)))", "mish(mish({p}))", lambda p: functional.mish(functional.mish(p))),
    Chain("x + r with row squares", "y = linear(x, w) + r; return y, sum(square(y), -1, keepdim=true)",
          "y = {p} + r; return y, sum(square(y), -1, keepdim=true)", lambda p, r: with_squares(p + r), "r"),
    Chain("to fp8 per 1x128", "q, s = quantize(linear(x, w), f8e4m3, 128); return q, s", "q, s = quantize({p}, f8e4m3, 128); return q, s",
          lambda p: quantise.quantised(p if p.dtype == torch.float64 else p.float(), "f8e4m3", 128)),
]
SWIGLU = Chain("silu(a) * b", "a, b = chunk(linear(x, w), 2, -1); silu(a) * b", "a, b = chunk({p}, 2, -1); silu(a) * b",
               lambda p: functional.silu(p.chunk(2, -1)[0]) * p.chunk(2, -1)[1])
SHAPES = [(1024, 8192, 8192), (8192, 4096, 4096), (32768, 4096, 1024), (8192, 8192, 8192)]  # rows, depth, columns
GATED = (4096, 4096, 2 * 11008)
FEW = [(rows, 4096, 4096) for rows in (16, 128, 256, 512)]  # where it is decided whether the chain has a host


@dataclasses.dataclass(frozen=True)
class Case:
    rows: int
    depth: int
    columns: int
    chain: Chain

    @property
    def name(self):
        return f"{self.rows}×{self.depth} to {self.columns}, {self.chain.name}"

    def shapes(self):
        known = {"b": (self.columns,), "g": (self.columns,), "r": (self.rows, self.columns)}
        return {"x": (self.rows, self.depth), "w": (self.columns, self.depth)} | {name: known[name] for name in self.chain.operands}

    def text(self, dtype):
        """Products of 8-bit types are scaled by a number for all, or for each column, as inference engines scale them."""
        if dtype == TF32:
            return re.sub(r"(linear\([^)]*)", r"\1, tf32=true", self.chain.text)
        if dtype not in NARROW:
            return self.chain.text
        given = "linear(x, w, b)" if "b" in self.chain.operands else "linear(x, w)"
        return scaled(self.chain.text, given, BY_BLOCKS if dtype == BLOCKS else "linear(x, w) * s")

    def scales(self, dtype):
        """Names and shapes of what products of this type are scaled by."""
        if dtype == BLOCKS:
            return {"sx": (self.rows, self.depth // 128), "sw": (self.columns // 128, self.depth // 128)}
        return {"s": (self.columns if dtype == "i8" else 1,)} if dtype in NARROW else {}

    def operands(self, dtype):
        made = {}
        for name, shape in self.shapes().items():
            is_factor = name in "xw"
            if is_factor and dtype == "i8":
                made[name] = torch.randint(-127, 128, shape, dtype=torch.int8, device="cuda")
            else:
                kind = of_factors(dtype) if is_factor or dtype not in NARROW else "bf16"
                size = self.depth**-0.5 if name == "w" and dtype not in NARROW else 1  # products of about 1, as a layer's
                made[name] = (torch.randn(shape, device="cuda") * size).to(torch_dtype(kind))
        for name, shape in self.scales(dtype).items():
            size = 1.0 if name == "sx" else self.depth**-0.5 / (73 * 73 if dtype == "i8" else 1)
            made[name] = torch.full(shape, size, device="cuda")
            if dtype == BLOCKS:
                made[name] *= torch.rand(shape, device="cuda") + 0.5
        if dtype == BLOCKS:  # as PyTorch wants those of rows
            made["sx"] = made["sx"].t().contiguous().t()
        return made


def of_factors(dtype):
    return {TF32: "f32", BLOCKS: "f8e4m3"}.get(dtype, dtype)


BY_BLOCKS = "scaled_mm(x, transpose(w, 0, 1), sx, transpose(sw, 0, 1))"


def scaled(text, product, by):
    bias = " + b" if product.endswith("b)") else ""
    *before, result = text.replace(product, f"({by}{bias})").split("; ")
    return "; ".join([*before, f"cast({result}, bf16)"])


CASES = [Case(*shape, chain) for shape in SHAPES for chain in CHAINS] + [Case(*GATED, SWIGLU)] + [Case(*shape, CHAINS[1]) for shape in FEW]
FEWEST = CASES[-len(FEW) :]
FOR_NARROW = ("bare", "gelu(x + b) + r", "silu(a) * b")
FOR_F16 = (*FOR_NARROW, "x + r with row squares")  # whose kernels are bf16's with another instruction
AUTOTUNED = ((8192, 4096, 4096), GATED)  # in bf16, by default


def use_torch():
    global torch, functional
    quantise.use_torch()
    torch, functional = quantise.torch, quantise.functional
    torch.set_float32_matmul_precision("high")  # f32 in TF32, for its cases


def with_squares(y):
    return y, y.square().sum(-1, keepdim=True)


# ---- one case


def product(dtype):
    """PyTorch's, of x, w and for 8-bit types s: cuBLASLt's."""
    if dtype == "f8e4m3":
        one = torch.ones((), device="cuda")
        return lambda x, w, s: torch._scaled_mm(x, w.t(), one, s.reshape(()), out_dtype=torch.bfloat16)
    if dtype == BLOCKS:
        return lambda x, w, sx, sw: torch._scaled_mm(x, w.t(), sx, sw.t(), out_dtype=torch.bfloat16)
    if dtype == "i8":
        return lambda x, w, s: torch._int_mm(x, w.t())
    return lambda x, w: x @ w.t()


def of_torch(case, dtype):
    """PyTorch's functions of the operands: product and chain, and the product alone."""
    multiply = product(dtype)
    factors = ["x", "w", *case.scales(dtype)]

    def alone(operands):
        return multiply(*[operands[name] for name in factors])

    def both(operands):
        made = alone(operands)
        made = (made * operands["s"]).to(torch.bfloat16) if dtype == "i8" else made
        return case.chain.function(made, *[operands[name] for name in case.chain.operands])

    return both, alone


def is_autotuned(case, dtype, options):
    if options.autotune is not None:
        return options.autotune
    return not options.no_compile and dtype == "bf16" and (case.rows, case.depth, case.columns) in AUTOTUNED


def contestants_of(case, dtype, tail, sets, options):
    import epifuse

    # Of i8 the product is i32, which the chain scales.
    behind = case.chain.behind.format(p="p") if dtype != "i8" else "q = cast(p * s, bf16); " + case.chain.behind.format(p="q")
    is_bare = case.chain.name == "bare"
    by_torch, multiply = of_torch(case, dtype)
    made = package_cases.beside_product(tail, None if is_bare else epifuse.compile(behind), multiply, by_torch, sets, options)
    if case.chain.fused and dtype not in NARROW:
        made["library"] = Torch(lambda operands: case.chain.fused(*[operands[name] for name in case.shapes()]), sets)
    if not is_bare and is_autotuned(case, dtype, options):
        made["autotune"] = Torch(torch.compile(by_torch, dynamic=False, mode="max-autotune-no-cudagraphs"), sets)
    return made


def best_of_library(dtype, sets, exact):
    """The bare product by the fastest of the kernels that cuBLASLt proposes, as a contestant, and what the record says of it."""
    x, w = (sets[0][0][name] for name in "xw")
    kind = torch.int32 if dtype == "i8" else torch.bfloat16 if dtype in NARROW else x.dtype
    with_results = [(operands, torch.empty(len(x), len(w), dtype=kind, device="cuda")) for (operands,) in sets]
    workspace = torch.empty(bridge.Product.WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")

    def scale_of(operands):
        return operands["s"] if dtype == "f8e4m3" else None

    product = bridge.Product(x, w, with_results[0][1], scale_of(sets[0][0]), MOST_KERNELS)

    def by(kernel):
        def multiply(operands, result):
            product(kernel, operands["x"], operands["w"], result, workspace, scale_of(operands))
            return result

        return Torch(multiply, with_results)

    graphs = {}
    for kernel in range(product.kernels):
        with contextlib.suppress(bridge.Error):  # what is proposed need not run
            graphs[kernel] = gpu_timing.capture(by(kernel), len(sets), len(sets))
    if not graphs:
        raise bridge.Error(f"none of cuBLASLt's {product.kernels} kernels runs")
    times = gpu_timing.sample(graphs, 0, leader=next(iter(graphs)))
    seconds = {kernel: statistics.median(values) / len(sets) for kernel, values in times.items()}
    best = min(seconds, key=seconds.get)
    winner, (operands, result) = by(best), with_results[0]
    result.zero_()
    winner.function(operands, result)
    wait("cuBLASLt's kernel")
    worst_of(["cuBLASLt's product"], [result], [exact], "f64" if dtype == "i8" else dtype if dtype == TF32 else bridge.dtype_name(kind), RIGHT.get(dtype, 1))
    return winner, {"best": best, "seconds": [seconds.get(kernel) for kernel in range(product.kernels)]}


def exact_product(dtype, operands):
    """In f64, and with the scale that products of 8-bit types have."""
    x, w = operands["x"].double(), operands["w"].double()
    if dtype == BLOCKS:
        x = x * operands["sx"].double().repeat_interleave(128, 1)
        w = w * operands["sw"].double().repeat_interleave(128, 0).repeat_interleave(128, 1)
    value = x @ w.t()
    return value, value * operands["s"].double() if "s" in operands else value


def worst_difference(found, exact, dtype, is_one_kernel):
    """Of each result, in units of its tolerance; raises Wrong. A float8 number may be a neighbour of the exact one. Apart from the chain, a product of
    16-bit types is rounded before the chain reads it."""
    is_rounded = not is_one_kernel and dtype not in NARROW
    limit, worst = RIGHT.get(dtype, ROUNDED if is_rounded else 1), 0.0
    for number, (mine, right) in enumerate(zip(found, exact, strict=True)):
        name, kind = f"result {number}", bridge.dtype_name(mine.dtype)
        if kind == "f8e4m3":
            off = (mine.double() - right.double()).abs() / (quantise.spacing_of(mine.dtype, right.double()) + CANCELLED)
            error = off.max().item()
            if mine.shape != right.shape or not error <= 1:
                raise Wrong(f"{name} is wrong: off by {error:.3g} steps of its type")
        elif dtype == TF32:
            error = worst_of([name], [mine], [right], TF32, limit)
        elif kind == "f32":
            error = worst_of([name], [mine], [right], dtype if is_rounded else "f32", 1 if is_rounded else RIGHT_IN_F32)
        else:
            error = worst_of([name], [mine], [right], kind, limit)
        worst = max(worst, error)
    return worst


def run_case(item, options):
    case, dtype = item
    tail, sets = package_cases.prepared(case, dtype)
    (first,) = sets[0]
    found = as_list(tail(**{name: first[name] for name in tail.inputs}))
    wait("EpiFuse's kernel")
    bare, value = exact_product(dtype, first)
    exact = as_list(case.chain.function(value, *[first[name].double() for name in case.chain.operands]))
    error = worst_difference(found, exact, dtype, plan_of(case, dtype).schedule == "gemm")
    del found, exact
    problems, heuristics, launches = {}, None, LAUNCHES * len(sets)
    contestants = contestants_of(case, dtype, tail, sets, options)
    try:
        if dtype != BLOCKS:
            contestants["best"], heuristics = best_of_library(dtype, sets, bare if dtype == "i8" else value)
    except (bridge.Error, Wrong) as problem:
        problems["best"] = gpu_timing.first_line(problem)
    del bare, value
    torch.cuda.empty_cache()
    known = {"error_in_tolerances": error, "plan": line_of(case, dtype), "flops": 2 * case.rows * case.depth * case.columns, "heuristics": heuristics}
    return record_of(item) | known | package_cases.timed_beside_product(contestants, len(sets), launches, options.seconds, problems)


def record_of(item):
    case, dtype = item
    return {"case": case.name, "dtype": dtype, "text": case.text(dtype), "shapes": {name: list(shape) for name, shape in case.shapes().items()},
            "target": FACTOR}


def plan_of(case, dtype):
    import epifuse

    tail = epifuse.compile(case.text(dtype))
    scales = case.scales(dtype)
    kinds = {"x": of_factors(dtype), "w": of_factors(dtype)} | dict.fromkeys(scales, "f32")
    shapes = case.shapes() | scales
    other = "bf16" if dtype in NARROW else of_factors(dtype)
    return tail.plan(**{name: f"{kinds.get(name, other)}[{','.join(map(str, shapes[name]))}]" for name in tail.inputs})


def line_of(case, dtype):
    return package_cases.line_of_product(plan_of(case, dtype))


# ---- all of them


def cases_of(dtype):
    chains = {"f16": FOR_F16}.get(dtype, FOR_NARROW)
    return [case for case in CASES if dtype == "bf16" or case.chain.name in chains or (dtype == "f8e4m3" and case in FEWEST)]


def warm(item):
    case, dtype = item
    if case.chain.name != "bare":
        by_torch, _ = of_torch(case, dtype)
        torch.compile(by_torch, dynamic=False)(case.operands(dtype))


def more_options(parser):
    parser.add_argument("--autotune", action=argparse.BooleanOptionalAction, help="torch.compile's max-autotune for all cases, or for none; "
                        "by default for bf16 of a few shapes")


def main(script, doc, cases, dtypes):
    outcome = functools.partial(package_cases.line_of_record, lambda seconds: f"product {seconds['product'] * 1e3:.4f} ms", last="plan")
    return package_cases.main(script, doc, cases, record_of=record_of, run=run_case, warm=warm, line_of=line_of,
                              use_torch=use_torch, dtypes=dtypes, outcome=outcome, more_options=more_options)


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, cases_of, DTYPES))
