"""What bench/gradients.py, bench/view_operands.py, bench/quantise.py, bench/products.py and bench/convolutions.py share: cases of the Python package beside a copy or a bare product,
eager PyTorch and torch.compile."""
import dataclasses
import importlib.util
import re
import statistics
import typing
import zlib

import gpu_timing
import session
from gpu_timing import Copy, Torch, Wrong, as_list, bytes_of, difference, launches_for, measure, sets_for, torch_dtype, wait

DTYPES = ("f32", "bf16")


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    chain: str
    shapes: dict  # operand -> shape, in the order of `function`
    function: typing.Callable  # the same with PyTorch
    wrt: tuple = ()  # of a backward pass: the operands whose gradients are asked for
    out: tuple = ()  # operands whose memory the results are

    def text(self, _dtype):
        """The chain for operands of a type."""
        return self.chain

    def operands(self, dtype):
        """Random ones."""
        return [gpu_timing.torch.randn(shape, device="cuda").to(torch_dtype(dtype)) for shape in self.shapes.values()]

    def type_of(self, _name, dtype):
        """Of an operand."""
        return dtype

    def in_order(self, names, operands):
        """The same, as a chain takes them."""
        by_name = dict(zip(self.shapes, operands))
        return [by_name[name] for name in names]


def worst_of(names, found, exact, dtype, limit=1):
    """The worst difference in units of the tolerance. Raises Wrong for one above `limit`."""
    worst = 0.0
    for name, mine, right in zip(names, found, exact, strict=True):
        error, absolute = difference(mine, right, dtype)
        if error > limit:
            raise Wrong(f"{name} is wrong: off by {absolute:.3g}, {error:.3g} times the tolerance")
        worst = max(worst, error)
    return worst


def known_of(case, dtype, group, factor):
    """What a record says before its case runs."""
    return {"case": case.name, "group": group, "dtype": dtype, "text": case.chain,
            "shapes": {name: list(shape) for name, shape in case.shapes.items()}, "target": factor}


def timed(contestants, traffic, sets, seconds, problems):
    """The record's figures of the contestants and of a copy of `traffic` bytes."""
    launches = launches_for(traffic, sets)
    found, samples, copies = measure({"copy": Copy(traffic, sets), **contestants}, sets, launches, seconds, problems)
    gpu_timing.torch._dynamo.reset()
    ratio = {name: value / found["copy"] for name, value in found.items() if name != "copy"}
    return {"bytes": traffic, "seconds": found, "ratio": ratio, "copies": copies, "samples": samples, "launches": launches,
            "sets": sets, "problems": problems}


def timed_tail(case, dtype, options, known, check):
    """A forward chain: the record of EpiFuse, eager PyTorch and torch.compile, beside a copy of what the plan moves. `check` has the results and
    the operands, raises Wrong or gives what the record says of the error."""
    import epifuse

    torch = gpu_timing.torch
    torch.manual_seed(zlib.crc32(case.name.encode()))
    tail = epifuse.compile(case.chain)

    def named(operands):
        return dict(zip(tail.inputs, case.in_order(tail.inputs, operands)))

    def launched(*operands):
        out = {"out": tuple(case.in_order(case.out, operands))} if case.out else {}
        return tail(**named(operands), **out)

    first = case.operands(dtype)
    results = as_list(launched(*first))
    wait("EpiFuse's kernel")
    error = check(results, first)
    plan = tail.plan(**named(first))
    traffic = plan.bytes_read + plan.bytes_written
    largest = max(bytes_of([tensor]) for tensor in [*first, *results])
    del results
    count = sets_for(largest, traffic)
    sets = [first] + [case.operands(dtype) for _ in range(count - 1)]
    torch.cuda.empty_cache()

    contestants = {"epifuse": Torch(launched, sets), "eager": Torch(case.function, sets)}
    if not options.no_compile:
        contestants["compile"] = Torch(torch.compile(case.function, dynamic=False), sets)
    return known | {"schedule": plan.schedule} | error | timed(contestants, traffic, count, options.seconds, {})


def warm_tail(item):
    case, dtype = item
    gpu_timing.torch.compile(case.function, dynamic=False)(*case.operands(dtype))


def line_of_tail(case, dtype):
    """The plan of a forward chain."""
    import epifuse

    tail = epifuse.compile(case.chain)
    plan = tail.plan(**{name: f"{case.type_of(name, dtype)}[{','.join(map(str, case.shapes[name]))}]" for name in tail.inputs})
    return f"{plan.schedule}, {plan.bytes_read} B read, {plan.bytes_written} B written"


# ---- chains that their product's kernel may host


def prepared(case, dtype):
    """A case's chain, and its random operands as arguments of contestants: as often as nothing is found in the L2 cache when its turn comes again."""
    import epifuse

    gpu_timing.torch.manual_seed(zlib.crc32(case.name.encode()))
    first = case.operands(dtype)
    more = sets_for(0, bytes_of(list(first.values()))) - 1
    return epifuse.compile(case.text(dtype)), [(first,)] + [(case.operands(dtype),) for _ in range(more)]


def beside_product(tail, behind, multiply, by_torch, sets, options):
    """Contestants: the bare product, and one kernel for it and its chain. Where there is a chain, `behind` the product "p": the product and then the
    chain, eager PyTorch and torch.compile. `multiply` and `by_torch` take the operands by name."""

    def of(chain, operands):
        return chain(**{name: operands[name] for name in chain.inputs})

    made = {"product": Torch(multiply, sets), "epifuse": Torch(lambda operands: of(tail, operands), sets)}
    if behind is not None:
        made["pair"] = Torch(lambda operands: of(behind, operands | {"p": multiply(operands)}), sets)
        made["eager"] = Torch(by_torch, sets)
        if not options.no_compile:
            made["compile"] = Torch(gpu_timing.torch.compile(by_torch, dynamic=False), sets)
    return made


def timed_beside_product(contestants, sets, launches, seconds, problems):
    """The record's figures, in multiples of the bare product."""
    graphs = gpu_timing.captured(contestants, sets, launches, problems)
    times = gpu_timing.sample(graphs, seconds, leader="product")
    gpu_timing.torch._dynamo.reset()
    found = {name: statistics.median(values) / launches for name, values in times.items()}
    ratio = {name: value / found["product"] for name, value in found.items() if name != "product"}
    return {"seconds": found, "ratio": ratio, "samples": len(times["product"]), "problems": problems}


def line_of_product(plan):
    """What a plan says of its product: one kernel and its tile, or why not."""
    lines = plan.text().splitlines()
    return " ".join(line.split(maxsplit=1)[1] for line in lines if line.startswith(("product", "convolution", "tile")))


# ---- their scripts


def line_of_record(first, found, last):
    """One line for people: what the ratios are multiples of, and what the plan says."""
    if "error" in found:
        return "FAILED: " + found["error"]
    parts = [first(found["seconds"])] + [f"{name} {ratio:.3f}" for name, ratio in found["ratio"].items()]
    return ", ".join(parts + [f"{name}: {text[:160]}" for name, text in found["problems"].items()]) + f"; {found[last][:120]}"


def outcome(found):
    return line_of_record(lambda seconds: f"copy {seconds['copy'] * 1e6:.1f} µs", found, "schedule")


def dry_run(items, line_of):
    """Prints a line about each case: its chain where the package cannot be imported."""
    failed, is_there = 0, importlib.util.find_spec("epifuse")
    for case, dtype in items:
        try:
            print(f"{case.name} {dtype}: {line_of(case, dtype) if is_there else case.text(dtype)}", flush=True)
        except (ValueError, RuntimeError) as problem:
            failed += 1
            print(f"{case.name} {dtype}: FAILED: {gpu_timing.first_line(problem)}", flush=True)
    return session.FAILED if failed else session.DONE


def main(script, doc, cases, *, record_of, run, warm, line_of, use_torch, dtypes=DTYPES, outcome=outcome, more_options=lambda parser: None):
    """`cases` are those of every type, or a function that gives those of one. `warm` runs a case once under torch.compile, which keeps on disk what it
    compiled."""

    def chosen(options):
        if callable(cases):
            return [(case, dtype) for dtype in options.dtypes for case in cases(dtype) if re.search(options.cases, case.name)]
        return [(case, dtype) for case in cases if re.search(options.cases, case.name) for dtype in options.dtypes]

    def compile_ahead(items, options):
        for item in items if not options.no_compile else []:
            try:
                warm(item)
                gpu_timing.torch.cuda.synchronize()
            except Exception as problem:  # the run itself will meet it and record it
                print(f"compiling ahead {item[0].name} {item[1]}: {gpu_timing.first_line(problem)}", flush=True)
            gpu_timing.torch._dynamo.reset()
            gpu_timing.torch.cuda.empty_cache()

    bench = session.Bench(script=script, chosen=chosen, record_of=record_of, run=run, outcome=outcome, compile_ahead=compile_ahead,
                          use_torch=use_torch)
    parser = session.parser(doc, f"{bench.suite}.json")
    parser.add_argument("--dtypes", type=session.listed, default=list(dtypes), help=f"of {','.join(dtypes)}")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    more_options(parser)
    options = session.parsed(parser)
    if options.list:
        for case, dtype in chosen(options):
            print(f"{case.name} {dtype}: {case.text(dtype)}")
        return session.DONE
    return session.main(bench, options, lambda options: dry_run(chosen(options), line_of))
