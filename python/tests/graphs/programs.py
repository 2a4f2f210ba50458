"""Random programs of PyTorch over the graph backend: views, mutation, aliases, masks, all types, shapes that change,
against eager PyTorch. Run as a program it writes the counts: see main(). test_graph_programs.py runs a share."""

import argparse
import collections
import dataclasses
import json
import pathlib
import random
import sys
import time
import warnings

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from graphs import compare, lines  # noqa: E402
from support import watched, wording  # noqa: E402

import epifuse  # noqa: E402
from epifuse import _partition  # noqa: E402

MODES = {  # of how many programs in a thousand
    "aot": 789,  # behind AOTAutograd, without Dynamo
    "dynamo": 105,  # torch.compile, shapes as they are
    "dynamic": 105,  # torch.compile, some extents marked as dynamic, and a second call with others
    "inductor": 1,  # torch.compile, and Inductor compiles what is left
}
SPECIAL = (0.0, -0.0, float("inf"), -float("inf"), float("nan"), 0.1, 1.0, -1.0)


@dataclasses.dataclass
class Program:
    """`source`: lines of Python over the inputs a, b, …; `results`: names of what it returns."""

    seed: int
    mode: str
    inputs: list  # how each is made: (name, shape by letters, type, how it lies)
    source: list
    results: list
    extents: list  # one dictionary of letters per call

    def text(self):
        head = [f"# seed {self.seed}, {self.mode}, extents {self.extents}"]
        head += [f"# {name}: {dtype} {shape}, {layout}" for name, shape, dtype, layout in self.inputs]
        names = ", ".join(name for name, *_ in self.inputs)
        body = [f"    {line}" for line in self.source]
        return "\n".join([*head, f"def program({names}):", *body, f"    return {', '.join(self.results)},"])

    def function(self):
        names = {"torch": torch, "F": F}
        exec(compile(self.text(), f"<program {self.seed}>", "exec"), names)
        return names["program"]

    def arguments(self, call):
        """New tensors, the same for the same call."""
        torch.manual_seed(self.seed)
        made = {}
        for name, shape, dtype, layout in self.inputs:
            made[name] = _made([self.extents[call].get(one, one) for one in shape], dtype, layout, made)
        return list(made.values())


def _made(shape, dtype, layout, others):
    if layout.startswith("view of "):
        return others[layout.removeprefix("view of ")].flatten()[: shape[0]]
    given = shape
    if layout == "turned":
        given = shape[::-1]
    elif layout == "every second":
        given = [*shape[:-1], shape[-1] * 2]
    elif layout == "spread":
        given = [1, *shape[1:]]
    if dtype.is_floating_point:
        value = torch.randn(given, dtype=torch.float32)
        if torch.rand(()) < 0.25:
            places = torch.rand(given) < 0.1
            value = torch.where(places, torch.tensor(SPECIAL)[torch.randint(len(SPECIAL), given)], value)
        value = value.to(dtype)
    elif dtype is torch.bool:
        value = torch.rand(given) < 0.5
    else:
        low, high = (0, 9) if dtype is torch.uint8 else (-5, 9)
        value = torch.randint(low, high, given, dtype=dtype)
        if dtype is torch.int64 and torch.rand(()) < 0.2:
            value += 2**24
    if layout == "turned":
        return value.permute(*range(len(given) - 1, -1, -1))
    if layout == "every second":
        return value[..., ::2]
    return value.expand(shape) if layout == "spread" else value


def drawn(seed):
    """The program of a seed: lines that eager PyTorch refuses are drawn again."""
    draw = random.Random(seed)
    mode = draw.choices(list(MODES), MODES.values())[0]
    extents = {one: draw.choice((2, 3, 4, 5, 7)) for one in "ABC"}
    if mode == "aot" and draw.random() < 0.06:
        extents[draw.choice("ABC")] = draw.choice((0, 1))
    second = {one: draw.choice((2, 3, 6, 8)) for one in "ABC"}
    program = Program(seed, mode, [], [], [], [extents, second] if mode == "dynamic" else [extents])
    for name in "abcd"[: draw.randint(1, 4)]:
        program.inputs.append((name, *_input(draw, program.inputs)))
    names = {"torch": torch, "F": F}
    names |= dict(zip((name for name, *_ in program.inputs), program.arguments(0)))
    known = [name for name, *_ in program.inputs]
    for _ in range(draw.randint(2, 14) if draw.random() < 0.98 else draw.randint(30, 60)):
        for _ in range(20):
            line = lines.draw(draw, {name: names[name] for name in known}, f"v{len(program.source)}")
            if line is not None and _runs(line, names):
                break
        else:
            continue
        program.source.append(line)
        made = line.split(" = ")[0]
        if made.isidentifier() and isinstance(names.get(made), torch.Tensor):
            known.append(made)
    last = known[-3:]
    program.results = list(dict.fromkeys([*last, *(draw.choice(known) for _ in range(draw.randint(0, 2)))]))
    return program


def _input(draw, before):
    shape = draw.choice(("ABC", "ABC", "BC", "BC", "BC", "C", "B1", "A1C", "1", ""))
    shape = [1 if one == "1" else one for one in shape]
    dtype = getattr(torch, draw.choice(lines.TYPES))
    layout = draw.choice(("as usual", "as usual", "as usual", "turned", "every second", "spread"))
    whole = [one for one in before if one[3] == "as usual" and one[1] == ["B", "C"]]
    if whole and draw.random() < 0.15:
        return ["C"], whole[0][2], f"view of {whole[0][0]}"
    return shape, dtype, layout if len(shape) > 1 else "as usual"


def _runs(line, names):
    before = {name: value._version for name, value in names.items() if isinstance(value, torch.Tensor)}
    kept = {name: names[name].clone() for name in before}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*was resized")  # out= of another shape: fake strides are not real
            exec(line, names)
        return True
    except Exception:
        for name, version in before.items():
            # Written, or resized by out=, before it failed; what lies over itself PyTorch refuses to write.
            if names[name]._version != version and not compare.lies_over_itself(names[name]):
                names[name].resize_(kept[name].shape).copy_(kept[name])
        return False


# ---- the same program among other things


def with_statistic(program):
    """The mean of all of its last result, times an expression of an operand of one element, beside its results."""
    last = program.results[0]
    more = [f"m0 = {last}.float().mean() * s.exp()", f"m1 = torch.maximum({last}.float().amax(), s / 2)"]
    made = [("s", [], torch.float32, "as usual")]
    results = [*program.results, "m0", "m1"]
    return dataclasses.replace(program, inputs=program.inputs + made, source=program.source + more, results=results)


def of_nothing(program):
    """The innermost extent is 0; the lines that eager PyTorch still takes, and a result merged and combined with itself."""
    last = program.results[0]
    empty = dataclasses.replace(program, extents=[{**one, "C": 0} for one in program.extents])
    names = {"torch": torch, "F": F}
    names |= dict(zip((name for name, *_ in empty.inputs), empty.arguments(0)))
    lines_ = [*program.source, f"e0 = torch.tanh({last}.float())", "e1 = e0.flatten() + e0"]
    empty.source = [line for line in lines_ if _runs(line, names)]
    empty.results = [one for one in [*program.results, "e1"] if isinstance(names.get(one), torch.Tensor)]
    return empty


VARIANTS = {"with a statistic": with_statistic, "of nothing": of_nothing}


def variants(program):
    """Programs made of this one, one of each kind, as far as they are programs."""
    for name, change in VARIANTS.items():
        try:
            made = change(program)
            _run(made.function(), made, 0)
        except Exception:
            continue
        if made.results:
            yield name, made


# ---- judging


def _run(function, program, call):
    """Results, and the arguments as they are afterwards."""
    arguments = program.arguments(call)
    torch.manual_seed(1)
    with compare.filled():
        results = list(function(*arguments))
    return results, arguments


def _problem(found, want):
    """What distinguishes results and arguments of a call from the wanted ones."""
    for kind, ours, theirs in zip(("result", "argument"), found, want):
        for number, (a, b) in enumerate(zip(ours, theirs)):
            text = compare.difference(a, b)
            if text:
                return f"{kind} {number}: {text}"
    if compare.aliases(*found) != compare.aliases(*want):
        return f"aliases {compare.aliases(*found)} for {compare.aliases(*want)}"
    return ""


def compiled(program, ours=True):
    """Without `ours` PyTorch's own trace of it, which runs as eager PyTorch does."""
    function = program.function()
    if program.mode == "aot":
        return compare.compiled(function) if ours else compare.traced(function)
    torch._dynamo.reset()
    if not ours:
        return torch.compile(function, backend="aot_eager")
    options = {} if program.mode == "inductor" else {"producers": "eager"}
    return torch.compile(function, backend=epifuse.backend, options=options)


OUTCOMES = {
    "as eager": "a call gave what eager PyTorch gives",
    "as traced": "it gave what PyTorch's own trace of the program gives, which is not what eager PyTorch gives",
    "as one by one": "it gave what eager PyTorch gives on one element at a time, and not what it gives on many",
    "as rounded otherwise": "it gave what eager PyTorch gives with noise of a rounding behind each operation",
    "refused": "PyTorch's own tracer refuses the program, or the program these extents",
    "fused as one": "the whole program is planned as one kernel of a fused function",
    "fused no": "it is not one, and the error names what the program calls",
    "wrong": "anything else: a defect",
}


def judged(program, compiles=False):
    """(problem, outcomes, kernels): what is wrong with the compiled program, "" if nothing is; one outcome per call.
    `compiles`: by NVRTC, too, where no extent is a symbol."""
    function = program.function()
    run = compiled(program)
    with compare.reports() as reports, compare.chains() as chains:
        calls = [_judged_call(function, run, program, i) for i in range(len(program.extents))]
    if any(one.fallback for one in reports):
        calls.append(("wrong", "the partitioner failed"))
    unfit = compare.uncompiled(chains) if compiles and program.mode == "aot" else ""
    if unfit:
        calls.append(("wrong", unfit))
    if program.mode == "aot":
        calls.append(_judged_fused(function, program))
    problem = next((text for _, text in calls if text), "")
    return problem, [what for what, _ in calls], [text for one in reports for text in one.kernels]


def _judged_fused(function, program):
    """The whole program as one fused function: mostly it is none, and an error says so by the name of what was called."""
    try:
        arguments = program.arguments(0)
        epifuse.fuse(function).plan(*arguments)
        return "fused as one", ""
    except (epifuse.Untraceable, ValueError, RuntimeError, TypeError, IndexError, NotImplementedError) as problem:
        names = wording.called_by(lambda: function(*program.arguments(0)))
        text = wording.misnamed(str(problem), names)
        return ("wrong", text) if text else ("fused no", "")


def _judged_call(function, run, program, call):
    try:
        want = _run(function, program, call)
    except Exception:
        return "refused", ""
    try:
        found = _run(_marking(run, program), program, call)
    except Exception as problem:
        if _is_refused(program, call):
            return "refused", ""
        return "wrong", f"{type(problem).__name__}: {str(problem)[:300]}"
    problem = _problem(found, want)
    if not problem:
        return "as eager", ""
    traced = _others(lambda: _marking(compiled(program, ours=False), program), program, call)
    if traced and not _problem(found, traced[0]):
        return "as traced", ""
    single = _others(lambda: compare.one_by_one(function), program, call)
    if single and not _problem(found, single[0]):
        return "as one by one", ""
    # What rounding decides: programs with noise behind each operation say how far a result may be off.
    near = [one for seed in range(-1, 6) for one in _others(lambda: compare.noisy(function, seed), program, call)]
    same = near and not compare.beyond(found, [want, *near])
    return ("as rounded otherwise", "") if same else ("wrong", problem)


def _is_refused(program, call):
    """Whether PyTorch's own trace ends in an error, too, called with the same extents one after the other."""
    run = _marking(compiled(program, ours=False), program)
    try:
        for i in range(call + 1):
            _run(run, program, i)
    except Exception:
        return True
    return False


def _others(made, program, call):
    """What another form of the program gives, in a list; nothing where PyTorch's trace of it ends in an error."""
    try:
        return [_run(made(), program, call)]
    except Exception:
        return []


def _marking(run, program):
    if program.mode != "dynamic":
        return run

    def marked(*arguments):
        for argument, (_, shape, _, layout) in zip(arguments, program.inputs):
            for i, one in enumerate(shape):
                if isinstance(one, str) and not layout.startswith("view"):
                    torch._dynamo.maybe_mark_dynamic(argument, i)
        return run(*arguments)

    return marked


def shrunk(program, compiles=False):
    """A shorter program that fails, too."""
    changed = True
    while changed:
        changed = False
        for i in reversed(range(len(program.source))):
            less = dataclasses.replace(program, source=program.source[:i] + program.source[i + 1 :])
            kept = [one for one in program.results if one.isidentifier() and _is_known(one, less)]
            less.results = kept or [less.inputs[0][0]]
            if _fails(less, compiles):
                program, changed = less, True
        for one in list(program.results):
            less = dataclasses.replace(program, results=[name for name in program.results if name != one])
            if less.results and _fails(less, compiles):
                program, changed = less, True
    return program


def _is_known(name, program):
    return any(line.startswith(f"{name} = ") for line in program.source) or name in [one[0] for one in program.inputs]


def _fails(program, compiles):
    try:
        _run(program.function(), program, 0)
        return bool(judged(program, compiles)[0])
    except Exception:
        return False


def run(seeds, told=lambda text: None, compile_every=0, shrinks=True):
    """Counts, and the programs that fail, shrunk. One program in `compile_every` is compiled by NVRTC, too."""
    counts, failures = collections.Counter(), []
    for seed in seeds:
        program = drawn(seed)
        watched.note(program.text())
        compiles = compile_every > 0 and seed % compile_every == 0
        problem, outcomes, kernels = judged(program, compiles)
        for name, other in variants(program) if compiles and not problem and program.mode == "aot" else ():
            watched.note(other.text())
            problem, others, _ = judged(other, compiles)
            counts.update([f"variant {name}", *(f"call {one}" for one in others)])
            if problem:
                program = other
                break
        counts.update(f"call {one}" for one in outcomes)
        counts["programs"] += 1
        counts[f"mode {program.mode}"] += 1
        counts["kernels"] += len(kernels)
        counts["programs with kernels"] += bool(kernels)
        counts["lines"] += len(program.source)
        counts.update(f"line {lines.kind_of(line)}" for line in program.source)
        if problem:
            less = shrunk(program, compiles) if shrinks else program
            failures.append({"seed": seed, "problem": judged(less, compiles)[0] or problem, "program": less.text()})
            told(f"{failures[-1]['problem']}\n{less.text()}\n")
    return counts, failures


def main():
    """python python/tests/graphs/programs.py --count 5000 --json tests/reports/graph-programs.json"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--json", help="where the report goes")
    parser.add_argument("--mode", help="only programs of this mode")
    parser.add_argument("--small", type=int, help="groups up to this size are planned at every step (_partition.SMALL)")
    parser.add_argument("--compile-every", type=int, default=0, help="one program in so many by NVRTC, too")
    parser.add_argument("--no-shrink", action="store_true", help="failures as they were drawn")
    parser.add_argument("--print", action="store_true", help="the programs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.small is not None:
        _partition.SMALL = options.small
    torch.set_num_threads(1)  # of processes that fork: threads stay behind
    compile_every = options.compile_every if compare.has_nvrtc() else 0
    begun = time.time()
    seeds = range(options.seed, options.seed + options.count)
    if options.mode:
        seeds = [seed for seed in seeds if drawn(seed).mode == options.mode]

    def saved(counts, failures):
        if options.json:
            report = {
                "command": "python " + " ".join(sys.argv),
                "torch": torch.__version__,
                "first seed": options.seed,
                "seconds": round(time.time() - begun),
                "outcomes": OUTCOMES,
                "counts": dict(sorted(counts.items())),
                "failures": failures,
            }
            pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")

    with torch.no_grad():
        if options.print:
            for seed in seeds:
                print(drawn(seed).text())
        counts, failures = collections.Counter(), []

        def judge(seed):
            found = run([seed], lambda text: print(text, flush=True), compile_every, not options.no_shrink)
            return *found, len(compare.compiled_sources())

        for seed, found, died in watched.each(seeds, judge):
            if died:
                print(died, flush=True)
                found = {"programs": 1, "call wrong": 1}, [{"seed": seed, "problem": died, "program": ""}], 0
            counts.update(found[0])
            failures += found[1]
            counts["kernels compiled by NVRTC"] = max(counts["kernels compiled by NVRTC"], found[2])
            if counts["programs"] % 20 == 0:
                saved(counts, failures)
    saved(counts, failures)
    print(dict(counts), f"{len(failures)} failures, {time.time() - begun:.0f} s")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
