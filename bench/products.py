#!/usr/bin/env python3
"""Matrix products that host their chain, on a GPU: one kernel of EpiFuse beside the bare product of cuBLASLt, the product and then EpiFuse's chain,
cuBLASLt's own epilogue, torch.compile and eager PyTorch, in one run.

    bench/products.py                                      # everything, to $OUT/products.json
    bench/products.py --cases 'gelu' --dtypes bf16 --autotune
    bench/products.py --dry-run                            # plans of all cases, for an H100; needs no GPU

Operands are random. Results are compared with PyTorch's in f64 first; what is wrong is not timed. All contestants are captured in CUDA graphs, and
replayed in turn; medians. PyTorch calls cuBLASLt's first choice for a product. ./dev bench products runs this, with what it needs.
"""
import dataclasses
import functools
import statistics
import sys
import typing
import zlib

import gpu_timing
import package_cases
from gpu_timing import Torch, bytes_of, torch_dtype, wait
from package_cases import worst_of

torch = functional = None  # set by use_torch()

FACTOR = 1.02  # of the bare product: what it may take with any chain
DTYPES = ("bf16", "f16", "f8e4m3", "i8")
NARROW = ("f8e4m3", "i8")  # whose products are scaled, and whose results are bf16
LAUNCHES = 4  # of each set of operands, in a graph
RIGHT = {"f8e4m3": 8}  # units of the tolerance: tensor cores keep about 14 bits of the sums of these


@dataclasses.dataclass(frozen=True)
class Chain:
    name: str
    text: str  # of EpiFuse, with the operands' names of `operands`
    behind: str  # the same behind the product {p}
    function: typing.Callable  # PyTorch's, of the product and the others
    operands: str = ""  # beside x and w, by letter: b along columns, r of the result's size
    fused: typing.Callable | None = None  # what PyTorch passes to cuBLASLt's own epilogue


CHAINS = [
    Chain("bare", "linear(x, w)", "{p}", lambda p: p),
    Chain("relu(x + b)", "relu(linear(x, w, b))", "relu({p} + b)", lambda p, b: functional.relu(p + b), "b",
          lambda x, w, b: torch._addmm_activation(b, x, w.t())),
    Chain("gelu(x + b) + r", "gelu(linear(x, w, b)) + r", "gelu({p} + b) + r", lambda p, b, r: functional.gelu(p + b) + r, "br"),
    Chain("mish(mish(x))", "mish(mish(linear(x, w)))", "mish(mish({p}))", lambda p: functional.mish(functional.mish(p))),
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
        known = {"b": (self.columns,), "r": (self.rows, self.columns)}
        return {"x": (self.rows, self.depth), "w": (self.columns, self.depth)} | {name: known[name] for name in self.chain.operands}

    def text(self, dtype):
        """Products of 8-bit types are scaled by a number for all, or for each column, as inference engines scale them."""
        if dtype not in NARROW:
            return self.chain.text
        return scaled(self.chain.text, "linear(x, w, b)" if "b" in self.chain.operands else "linear(x, w)")

    def operands(self, dtype):
        made = {}
        for name, shape in self.shapes().items():
            is_factor = name in "xw"
            if is_factor and dtype == "i8":
                made[name] = torch.randint(-127, 128, shape, dtype=torch.int8, device="cuda")
            else:
                kind = dtype if is_factor or dtype not in NARROW else "bf16"
                made[name] = torch.randn(shape, device="cuda").to(torch_dtype(kind))
        if dtype in NARROW:
            size = self.depth**-0.5 / (73 * 73 if dtype == "i8" else 1)
            made["s"] = torch.full((self.columns if dtype == "i8" else 1,), size, device="cuda")
        return made


def scaled(text, product):
    bias = " + b" if product.endswith("b)") else ""
    *before, result = text.replace(product, f"(linear(x, w) * s{bias})").split("; ")
    return "; ".join([*before, f"cast({result}, bf16)"])


CASES = [Case(*shape, chain) for shape in SHAPES for chain in CHAINS] + [Case(*GATED, SWIGLU)] + [Case(*shape, CHAINS[1]) for shape in FEW]
FEWEST = CASES[-len(FEW) :]
FOR_NARROW = ("bare", "gelu(x + b) + r", "silu(a) * b")  # and f16, whose kernels are bf16's with another instruction


def use_torch():
    global torch, functional
    import torch as module
    import torch.nn.functional as functions
    torch, functional = module, functions
    torch.set_grad_enabled(False)
    gpu_timing.use(torch)


# ---- one case


def product(dtype):
    """PyTorch's, of x, w and for 8-bit types s: cuBLASLt's."""
    if dtype == "f8e4m3":
        one = torch.ones((), device="cuda")
        return lambda x, w, s: torch._scaled_mm(x, w.t(), one, s.reshape(()), out_dtype=torch.bfloat16)
    if dtype == "i8":
        return lambda x, w, s: torch._int_mm(x, w.t())
    return lambda x, w: x @ w.t()


def of_torch(case, dtype):
    """PyTorch's functions of the operands: product and chain, and the product alone."""
    multiply = product(dtype)
    factors = ["x", "w", "s"] if dtype in NARROW else ["x", "w"]

    def alone(operands):
        return multiply(*[operands[name] for name in factors])

    def both(operands):
        made = alone(operands)
        made = (made * operands["s"]).to(torch.bfloat16) if dtype == "i8" else made
        return case.chain.function(made, *[operands[name] for name in case.chain.operands])

    return both, alone


def contestants_of(case, dtype, tail, sets, options):
    import epifuse

    # Of i8 the product is i32, which the chain scales.
    behind = epifuse.compile(case.chain.behind.format(p="p") if dtype != "i8" else "q = cast(p * s, bf16); " + case.chain.behind.format(p="q"))
    by_torch, multiply = of_torch(case, dtype)

    def apart(operands):
        known = operands | {"p": multiply(operands)}
        return behind(**{name: known[name] for name in behind.inputs})

    made = {
        "product": Torch(multiply, sets),
        "epifuse": Torch(lambda operands: tail(**{name: operands[name] for name in tail.inputs}), sets),
    }
    if case.chain.name != "bare":
        made |= {"pair": Torch(apart, sets), "eager": Torch(by_torch, sets)}
        if case.chain.fused and dtype not in NARROW:
            made["library"] = Torch(lambda operands: case.chain.fused(*[operands[name] for name in case.shapes()]), sets)
        if not options.no_compile:
            made["compile"] = Torch(torch.compile(by_torch, dynamic=False), sets)
        if options.autotune:
            made["autotune"] = Torch(torch.compile(by_torch, dynamic=False, mode="max-autotune-no-cudagraphs"), sets)
    return made


def exact(case, dtype, operands):
    value = operands["x"].double() @ operands["w"].double().t()
    if dtype in NARROW:
        value *= operands["s"].double()
    return case.chain.function(value, *[operands[name].double() for name in case.chain.operands])


def run_case(item, options):
    import epifuse

    case, dtype = item
    torch.manual_seed(zlib.crc32(case.name.encode()))
    tail = epifuse.compile(case.text(dtype))
    first = case.operands(dtype)
    total = bytes_of(list(first.values()))
    sets = [(first,)] + [(case.operands(dtype),) for _ in range(gpu_timing.sets_for(0, total) - 1)]
    found = tail(**{name: sets[0][0][name] for name in tail.inputs})
    wait("EpiFuse's kernel")
    result = dtype if dtype not in NARROW else "bf16"
    error = worst_of(["the result"], [found], [exact(case, dtype, sets[0][0])], result, RIGHT.get(dtype, 1))
    del found
    torch.cuda.empty_cache()
    problems, launches = {}, LAUNCHES * len(sets)
    graphs = gpu_timing.captured(contestants_of(case, dtype, tail, sets, options), len(sets), launches, problems)
    times = gpu_timing.sample(graphs, options.seconds, leader="product")
    seconds = {name: statistics.median(values) / launches for name, values in times.items()}
    torch._dynamo.reset()
    ratio = {name: value / seconds["product"] for name, value in seconds.items() if name != "product"}
    flops = 2 * case.rows * case.depth * case.columns
    return record_of(item) | {"error_in_tolerances": error, "plan": line_of(case, dtype), "flops": flops,
                              "seconds": seconds, "ratio": ratio, "samples": len(times["product"]), "problems": problems}


def record_of(item):
    case, dtype = item
    return {"case": case.name, "dtype": dtype, "text": case.text(dtype), "shapes": {name: list(shape) for name, shape in case.shapes().items()},
            "target": FACTOR}


def line_of(case, dtype):
    """What the plan says of the product: one kernel and its tile, or why not."""
    import epifuse

    tail = epifuse.compile(case.text(dtype))
    kinds = {"x": dtype, "w": dtype, "s": "f32"}
    shapes = case.shapes() | {"s": (case.columns if dtype == "i8" else 1,)}
    other = "bf16" if dtype in NARROW else dtype
    plan = tail.plan(**{name: f"{kinds.get(name, other)}[{','.join(map(str, shapes[name]))}]" for name in tail.inputs})
    return " ".join(line.split(maxsplit=1)[1] for line in plan.text().splitlines() if line.startswith(("product", "tile")))


# ---- all of them


def cases_of(dtype):
    wanted = {"bf16": CASES, "f8e4m3": [case for case in CASES if case.chain.name in FOR_NARROW or case in FEWEST]}
    return wanted.get(dtype, [case for case in CASES if case.chain.name in FOR_NARROW])


def warm(item):
    case, dtype = item
    if case.chain.name != "bare":
        by_torch, _ = of_torch(case, dtype)
        torch.compile(by_torch, dynamic=False)(case.operands(dtype))


def more_options(parser):
    parser.add_argument("--autotune", action="store_true", help="torch.compile's max-autotune too, a minute or more for each case")


if __name__ == "__main__":
    outcome = functools.partial(package_cases.line_of_record, lambda seconds: f"product {seconds['product'] * 1e3:.4f} ms", last="plan")
    sys.exit(package_cases.main(__file__, __doc__, cases_of, record_of=record_of, run=run_case, warm=warm, line_of=line_of,
                                use_torch=use_torch, dtypes=DTYPES, outcome=outcome, more_options=more_options))
