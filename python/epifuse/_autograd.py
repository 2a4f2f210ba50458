"""Tails under PyTorch's autograd: operators that run a chain, keep what its backward pass needs, and launch the backward
kernels. Importing this module registers them. Used by the launcher for tensors that require grad, and by _torch_ops.py."""

import dataclasses
import functools

import torch
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from . import _shapes
from ._arrays import NAMES
from ._core import Launcher
from ._core import gradient as _gradient
from ._errors import Error
from ._group import memory_order
from ._stages import computed_in, stages
from ._torch_ops import (
    _LIBRARY,
    _OURS,
    _TORCH,
    _fake,
    _parse_results,
    define,
    dispatch,
    facts_of,
    launcher_for,
    scalars_of,
    spell_results,
    targets_of,
)

_REAL = {"f64", "f32", "f16", "bf16"}

# ---- chains of the two passes


@dataclasses.dataclass(frozen=True)
class Passes:
    """Both passes of a chain for some of its operands. `operands`: what backward takes, (name, source, index) each, as of
    epifuse.gradient; `names`: the operands that a gradient leads to, one for each result of `backward`."""

    forward: str
    backward: str
    names: tuple
    operands: tuple
    saved: int


@functools.lru_cache(4096)
def _leads(chain, name):
    """Whether a path of operations with a derivative leads from the operand to a result."""
    try:
        _gradient(chain, [], [name], [])
    except ValueError as problem:
        if "the chain has no gradient with respect to" in str(problem):
            return False
        raise  # there is a gradient, which no chain computes
    return True


@functools.lru_cache(4096)
def passes_of(chain, wanted, overwritten, dtypes, compute):
    """Of the operands named in `wanted`, those that a gradient leads to. `dtypes`: in which the results are stored; `compute`: in
    which the chain computes. ValueError where no gradient leads to any, and where backward needs an operand that is
    `overwritten`."""
    names = tuple(name for name in wanted if _leads(chain, name))
    if not names:
        plural = len(wanted) > 1
        raise ValueError(
            f"operand{'s' if plural else ''} {', '.join(map(repr, wanted))} require{'' if plural else 's'} grad, and no "
            f"result of the chain has a gradient: comparisons, truth values and casts to integers have none. Call it "
            f"under torch.no_grad() or pass .detach()"
        )
    found = _gradient(chain, [], list(names), list(overwritten))
    passes = Passes(found["forward"], found["backward"], names, tuple(found["operands"]), found["saved"])
    compared = _compared(passes.backward)
    for name, source, i in passes.operands:
        # A rounded result is good enough, as in PyTorch, but for telling which element it was.
        if source == "result" and not (dtypes[i] == compute if name in compared else dtypes[i] in _REAL):
            passes = _with_copy(passes, name, i)
    return passes


def _compared(chain):
    """The operands from which something is computed that has to equal another value."""
    names, values, _, _ = facts_of(chain)
    found, reaches = set(), []
    for value in values:
        of = set().union(*(reaches[i] for i in value["arguments"]))
        reaches.append(of | {value["name"]} if value["op"] == "input" else of)
        if value["op"] == "eq":
            found |= of
    return found


def _with_copy(passes, name, index):
    """The same, with a result saved as it is computed where backward reads it: it is stored otherwise."""
    head, _, results = passes.forward.rpartition("; ")
    results = results.removeprefix("return ")
    count = len(facts_of(passes.forward)[2])
    operands = tuple((one, "saved", count) if one == name else (one, source, i) for one, source, i in passes.operands)
    forward = f"{head}; return {results}, ({Launcher(passes.forward).results[index]})"
    return dataclasses.replace(passes, forward=forward, operands=operands, saved=passes.saved + 1)


# ---- types and shapes


@functools.lru_cache(4096)
def _computed_in(chain, specs, dtypes):
    """What a chain computes in for operands (type, shape) and results of these types."""
    return computed_in(Launcher(chain), specs, dtypes)


def _spec(tensor):
    return _OURS[tensor.dtype], tuple(_shapes.hint(extent) for extent in tensor.shape)


def _is_integer(value):
    """Whether a value is a number that says which element: the largest of a window."""
    return value["op"] == "cast" and not value["dtype"].startswith(("f", "bf"))


@functools.lru_cache(4096)
def _spelled(passes, results, inputs):
    """The `results` argument of the forward chain: types and orders of its own results, and of what it saves. `inputs`:
    the operands, (type, shape) each."""
    _, values, positions, _ = facts_of(passes.forward)
    kinds = [values[i] for i in positions[len(positions) - passes.saved :]]
    computed = _computed_in(passes.forward, inputs, (*_parse_results(results)[0], *["f32"] * passes.saved))
    saved = ["bool" if one["gives_truth"] else one["dtype"] if _is_integer(one) else computed for one in kinds]
    return ",".join([results, spell_results(saved, [None] * len(saved))]) if saved else results


def _meta(tensor):
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _types(tensors):
    return tuple(_OURS[one.dtype] for one in tensors)


def _made(chain, results, inputs):
    """(type, shape) of a chain's results, for operands of such."""
    with torch.no_grad():
        likes = [torch.empty(shape, dtype=_TORCH[dtype], device="meta") for dtype, shape in inputs]
        return [_spec(one) for one in _fake(likes, [], chain, results)]


@functools.lru_cache(4096)
def _typed(chain, results, inputs):
    """`results` with the types that they have."""
    return spell_results([dtype for dtype, _ in _made(chain, results, inputs)], _parse_results(results)[1])


@functools.lru_cache(4096)
def _check(passes, names, results, inputs):
    """ValueError where a pass cannot be kernels. `names`, `inputs`: the operands, (type, shape) each."""
    made = _made(passes.forward, _spelled(passes, results, inputs), inputs)
    stages(passes.forward, inputs, tuple(dtype for dtype, _ in made))
    sources = {"gradient": made, "result": made, "saved": made, "operand": inputs, "shape": inputs}
    dtypes = tuple(inputs[names.index(name)][0] for name in passes.names)
    try:
        stages(passes.backward, tuple(sources[source][i] for _, source, i in passes.operands), dtypes)
    except ValueError as problem:
        raise ValueError(_refusal(passes.names, str(problem))) from None


# What only gradients have, in the words of the chain.
_OF_GRADIENTS = {
    "'repeat_as(…)'": "the gradient of a window, of 'cat' or of 'stack'",
    "'sum_to'": "the sum over what an operand is broadcast over",
}


def _refusal(names, why):
    for name, words in _OF_GRADIENTS.items():
        why = why.replace(name, words)
    return (
        f"the gradient with respect to {', '.join(map(repr, names))} cannot be launched: {why}. Let PyTorch compute what "
        "stands there before or behind the call"
    )


# ---- the operators
#
# recorded: the results of `chain`, and behind them what its gradient with respect to the operands at `wanted` needs.
# recorded_backward: the results of `chain`, a backward pass.


def _passes(inputs, chain, results, wanted, overwritten):
    names = facts_of(chain)[0]
    stored = tuple(_parse_results(results)[0])
    wanted, overwritten = (tuple(names[i] for i in places) for places in (wanted, overwritten))
    return passes_of(chain, wanted, overwritten, stored, _computed_in(chain, tuple(map(_spec, inputs)), stored))


def _recorded_with(run):
    def recorded(inputs, scalars, chain, results, wanted, overwritten):
        passes = _passes(inputs, chain, results, wanted, overwritten)
        spelled = _spelled(passes, results, tuple(map(_spec, inputs)))
        return run(inputs, _in_order(scalars, chain, passes.forward), passes.forward, spelled)

    return recorded


def _in_order(scalars, chain, other):
    """The run-time scalars that another chain takes."""
    of = dict(zip(scalars_of(chain), scalars))
    return [of[name] for name in scalars_of(other)]


class _Launches:
    """The kernels of a chain for operands of given types and shapes, ready to be launched."""

    def __init__(self, chain, specs, results):
        dtypes, orders = _parse_results(results)
        found = stages(chain, specs, tuple(dtypes))
        self.operands, self.names = found.operands, [("result", i) for i in range(len(dtypes))]
        self.steps = []
        for kernel in found.kernels:
            lie = [orders[one[1]] if isinstance(one, tuple) else None for one in kernel.writes]
            launcher = launcher_for(kernel.text, spell_results(kernel.dtypes, lie))
            numbers = [scalars_of(chain).index(name) for name in scalars_of(kernel.text)]
            self.steps.append((launcher, kernel.reads, numbers, kernel.writes))
        self.is_one = len(self.steps) == 1 and list(self.steps[0][3]) == self.names and self.steps[0][1] == self.operands

    def __call__(self, arrays, scalars, run=Launcher.run):
        """The results; `run`: of a launcher and its arguments."""
        if self.is_one:
            launcher, _, numbers, _ = self.steps[0]
            given = run(launcher, *arrays, *[scalars[i] for i in numbers])
            return list(given) if isinstance(given, tuple) else [given]
        made = dict(zip(self.operands, arrays))
        for launcher, reads, numbers, writes in self.steps:
            given = run(launcher, *[made[i] for i in reads], *[scalars[i] for i in numbers])
            made.update(zip(writes, given if isinstance(given, tuple) else (given,)))
        return [made[name] for name in self.names]


@functools.lru_cache(4096)
def _launches(chain, specs, results):
    return _Launches(chain, specs, results)


def _launch(arrays, scalars, chain, results, run=Launcher.run):
    """The results of a chain, by as many kernels as they need."""
    return _launches(chain, tuple(map(_spec, arrays)), results)(arrays, scalars, run)


def _prepared(arrays, scalars, chain, results):
    """The same without a launch: the results are tensors of nothing in particular."""

    def run(launcher, *operands):
        launcher.prepare((), dict(zip((*launcher.inputs, *launcher.scalars), operands)), None, None)
        count = len(launcher.inputs)
        spelled = spell_results(launcher.dtypes, [None] * len(launcher.dtypes))
        like = _fake([_meta(one) for one in operands[:count]], [], launcher.text, spelled)
        return tuple(torch.empty_like(one, device=arrays[0].device) for one in like)

    return _launch(arrays, scalars, chain, results, run=run)


define(
    "recorded",
    "(Tensor[] inputs, float[] scalars, str chain, str results, int[] wanted, int[] overwritten) -> Tensor[]",
    _recorded_with(_launch),
    _recorded_with(_fake),
)
define("recorded_backward", "(Tensor[] arrays, float[] scalars, str chain, str results) -> Tensor[]", _launch, _fake)


# ---- autograd


def _like(tensor):
    return tensor.shape, tensor.dtype, tensor.device


def _zeros(shape, dtype, device):
    """One element in memory, for a gradient that is nothing or an operand of which only the shape counts."""
    return torch.zeros((), dtype=dtype, device=device).expand(shape)


def _keep(ctx, passes, chain, tensors, scalars, output):
    """Keeps what backward reads; of an operand of which only the shape counts, the shape."""
    kept = {"result": output, "saved": output, "operand": tensors}
    ctx.passes, ctx.places = passes, [facts_of(chain)[0].index(name) for name in passes.names]
    ctx.scalars = _in_order(scalars, chain, passes.backward)
    ctx.gradients = [_like(one) for one in output[: len(output) - passes.saved]]
    ctx.shapes = {i: _like(tensors[i]) for _, source, i in passes.operands if source == "shape"}
    ctx.results = _spelled_gradients([tensors[i] for i in ctx.places])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*(kept[source][i] for _, source, i in passes.operands if source in kept))


def _spelled_gradients(operands):
    """A gradient has the type of its operand, and lies in memory as that does."""
    return spell_results(_types(operands), [memory_order(one) or range(one.dim()) for one in operands])


def _gradients(ctx, given):
    """The gradients by the operands' places."""
    saved = iter(ctx.saved_tensors)
    arrays = []
    for _, source, i in ctx.passes.operands:
        if source == "gradient":
            arrays.append(_zeros(*ctx.gradients[i]) if given[i] is None else given[i])
        else:
            arrays.append(_zeros(*ctx.shapes[i]) if source == "shape" else next(saved))
    made = torch.ops.epifuse.recorded_backward(arrays, ctx.scalars, ctx.passes.backward, ctx.results)
    return dict(zip(ctx.places, made))


def _setup(ctx, inputs, output):
    tensors, scalars, chain, results, wanted, overwritten = inputs
    passes = _passes(tensors, chain, results, wanted, overwritten)
    _keep(ctx, passes, chain, tensors, scalars, output)
    ctx.mark_non_differentiable(*output[len(output) - passes.saved :])
    # PyTorch takes an empty list of numbers for one of tensors, and wants a gradient of that structure.
    ctx.count, ctx.nothing = len(tensors), [[] if one == [] else None for one in inputs[1:]]


def _run_backward(ctx, given):
    made = _gradients(ctx, given)
    return [made.get(place) for place in range(ctx.count)], *ctx.nothing


def _refuse_twice(ctx, given):
    raise Error(
        "the gradient of a tail's gradient is not recorded: take the gradient of the backward tail itself "
        "(epifuse.gradient(g.backward, …)), or compute this tail with PyTorch's operations"
    )


torch.library.register_autograd("epifuse::recorded", _run_backward, setup_context=_setup, lib=_LIBRARY)
torch.library.register_autograd("epifuse::recorded_backward", _refuse_twice, lib=_LIBRARY)


class _Recording:
    """What of a recorded call does not depend on data: the kernels of both passes, and what is kept between them. For operands
    (type, shape, strides, whether a gradient is asked for) of a launcher."""

    def __init__(self, launcher, dtypes, inputs):
        chain = launcher.text
        with torch.no_grad():
            likes = [torch.empty_strided(shape, strides, dtype=dtype, device="meta") for dtype, shape, strides, _ in inputs]
        for like, (*_, is_wanted) in zip(likes, inputs):
            like.requires_grad_(is_wanted)
        types = [one or other for one, other in zip(dtypes or launcher.dtypes, launcher.dtypes)]
        passes, _, results = _checked(likes, chain, spell_results(types, [None] * len(types)))
        specs = tuple(map(_spec, likes))
        spelled = _spelled(passes, results, specs)
        made = _made(passes.forward, spelled, specs)
        names = launcher.inputs
        self.count, self.passes, self.blanks = len(names), passes, {}
        self.places = [names.index(name) for name in passes.names]
        self.forward = _launches(passes.forward, specs, spelled)
        of = {"gradient": made, "result": made, "saved": made, "operand": specs, "shape": specs}
        given = tuple(of[source][i] for _, source, i in passes.operands)
        spelled = _spelled_gradients([likes[place] for place in self.places])
        self.backward = _launches(passes.backward, given, spelled)
        self.gradients = [(shape, _TORCH[dtype]) for dtype, shape in made[: len(made) - passes.saved]]
        self.shapes = {i: (specs[i][1], likes[i].dtype) for _, source, i in passes.operands if source == "shape"}
        self.discrete = [i for i, (_, dtype) in enumerate(self.gradients) if not dtype.is_floating_point]
        self.forward_numbers, self.backward_numbers = (
            [launcher.scalars.index(name) for name in scalars_of(one)] for one in (passes.forward, passes.backward)
        )

    def arrays(self, saved, given, device):
        """What the backward pass takes."""
        saved, found = iter(saved), []
        for _, source, i in self.passes.operands:
            if source == "gradient":
                found.append(_zeros(*self.gradients[i], device) if given[i] is None else given[i])
            else:
                found.append(self.blank(i, device) if source == "shape" else next(saved))
        return found

    def blank(self, i, device):
        """A tensor of an operand's shape that nobody reads."""
        if (i, device) not in self.blanks:
            self.blanks[i, device] = _zeros(*self.shapes[i], device)
        return self.blanks[i, device]


@functools.lru_cache(4096)
def _recording(launcher, dtypes, inputs):
    return _Recording(launcher, dtypes, inputs)


class _Recorded(torch.autograd.Function):
    """A call outside of tracers: without the operators, whose dispatch takes longer than the kernels of small tensors."""

    @staticmethod
    def forward(ctx, recording, numbers, *tensors):
        made = recording.forward(tensors, [numbers[i] for i in recording.forward_numbers])
        kept = {"result": made, "saved": made, "operand": tensors}
        ctx.save_for_backward(*[kept[source][i] for _, source, i in recording.passes.operands if source in kept])
        ctx.set_materialize_grads(False)
        ctx.recording, ctx.numbers, ctx.device = recording, numbers, tensors[0].device
        results = made[: len(recording.gradients)]
        if recording.discrete:
            ctx.mark_non_differentiable(*[results[i] for i in recording.discrete])
        return tuple(results)

    @staticmethod
    def backward(ctx, *given):
        recording = ctx.recording
        arrays = recording.arrays(ctx.saved_tensors, given, ctx.device)
        scalars = [ctx.numbers[i] for i in recording.backward_numbers]
        run = _Once.apply if torch.is_grad_enabled() else _Once.launched
        found = [None] * (2 + recording.count)
        for place, one in zip(recording.places, run(recording.backward, scalars, *arrays)):
            found[2 + place] = one
        return tuple(found)


class _Once(torch.autograd.Function):
    """The backward kernels where the gradient of the gradient is recorded: it is refused when it is taken."""

    @staticmethod
    def launched(launches, scalars, *arrays):
        return tuple(launches(arrays, scalars))

    @staticmethod
    def forward(ctx, launches, scalars, *arrays):
        return _Once.launched(launches, scalars, *arrays)

    @staticmethod
    def backward(ctx, *given):
        return _refuse_twice(ctx, given)


# ---- calls


def check_type(who, tensor):
    if tensor.dtype not in _OURS:
        raise ValueError(
            f"{who} is {str(tensor.dtype).removeprefix('torch.')}, which a chain does not have: where autograd records "
            f"expected one of {', '.join(NAMES.values())}"
        )


def _checked(inputs, chain, results, overwritten=()):
    """(passes, places of the operands that require grad, `results` with the types that they have). ValueError where the
    gradient would not be."""
    for name, one in zip(facts_of(chain)[0], inputs):
        check_type(f"operand '{name}'", one)
    specs, wanted = tuple(map(_spec, inputs)), [i for i, one in enumerate(inputs) if one.requires_grad]
    results = _typed(chain, results, specs)
    passes = _passes(inputs, chain, results, wanted, overwritten)
    _check(passes, tuple(facts_of(chain)[0]), results, specs)
    return passes, wanted, results


def record(inputs, scalars, chain, results, overwritten=()):
    """The results of a chain, of which autograd knows."""
    passes, wanted, results = _checked(inputs, chain, results, overwritten)
    output = torch.ops.epifuse.recorded(inputs, scalars, chain, results, wanted, list(overwritten))
    return output[: len(output) - passes.saved]


def _check_operands(launcher, operands):
    for name, one in zip(launcher.inputs, operands):
        if not isinstance(one, torch.Tensor):
            raise TypeError(
                f"operand '{name}' is {type(one).__module__}.{type(one).__qualname__}: where autograd records, all "
                "operands are tensors of PyTorch"
            )


def _split(launcher, values):
    """The operands and the run-time scalars of a call, these in the order of the text."""
    count = len(launcher.inputs)
    _check_operands(launcher, values[:count])
    scalars = dict(zip(launcher.scalars, values[count:]))
    return values[:count], [float(scalars[name]) for name in scalars_of(launcher.text)]


@functools.lru_cache(4096)
def _takes(launcher):
    return len(launcher.inputs), len(launcher.results)


def _direct(launcher, values, dtypes):
    """A recorded call with tensors as they are."""
    count, results = _takes(launcher)
    inputs = values[:count]
    _check_operands(launcher, inputs)
    key = tuple([(one.dtype, one.shape, one.stride(), one.requires_grad) for one in inputs])
    recording = _recording(launcher, None if dtypes is None else tuple(dtypes), key)
    made = _Recorded.apply(recording, [float(one) for one in values[count:]], *inputs)
    return made[0] if results == 1 else made


def recorded(launcher, values, out, dtypes):
    """A call of a tail with tensors that require grad, by position."""
    if out is None and not is_in_torch_dispatch_mode():  # a tracer of real tensors is one, which sees operators
        return _direct(launcher, values, dtypes)
    inputs, scalars = _split(launcher, values)
    if out is None:
        return dispatch(launcher, values, None, dtypes)
    from ._written import write

    write(inputs, scalars, launcher.text, targets_of(out, len(launcher.results)))
    return out


def prepare(launcher, values, out, dtypes):
    """Compiles the kernels of both passes of such a call."""
    inputs, scalars = _split(launcher, values)
    chain, types = launcher.text, dtypes or launcher.dtypes
    if out is not None:
        types = _types(targets_of(out, len(launcher.results)))
    passes, _, results = _checked(inputs, chain, spell_results(types, [None] * len(types)))
    spelled = _spelled(passes, results, tuple(map(_spec, inputs)))
    with torch.no_grad():
        made = _prepared(inputs, _in_order(scalars, chain, passes.forward), passes.forward, spelled)
        of = {"gradient": made, "result": made, "saved": made, "operand": inputs, "shape": inputs}
        arrays = [of[source][i] for _, source, i in passes.operands]
        operands = [inputs[facts_of(chain)[0].index(name)] for name in passes.names]
        _prepared(arrays, _in_order(scalars, chain, passes.backward), passes.backward, _spelled_gradients(operands))
