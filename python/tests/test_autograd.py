"""Tails under PyTorch's autograd: every operation by gradcheck and in the types of storage, what is kept, what is refused."""

import gc
import pathlib
import re
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import gradient_cases as chains  # noqa: E402
import gradients as support  # noqa: E402
from chain_functions import run_chain  # noqa: E402
from tails import as_written  # noqa: E402

import epifuse  # noqa: E402

# A backward kernel computes in f32 and rounds once; so does what it reads of a stored result. Of the largest element:
# a unit of the type's last place for the operands' part, one for a stored result, and f32's own for sums of 30 elements.
UNITS = {torch.float32: 64, torch.float16: 2, torch.bfloat16: 2}

CHAINS = [
    *((text, chains.XB, "normal") for text in chains.OPERATIONS + chains.REDUCTIONS),
    *((f"{name}(x)", chains.XB, "positive") for name in chains.ABOVE_ZERO),
    *((text, chains.ROWS, "normal") for text in chains.COMPOSITES),
    *((text, chains.CHANNELS, "normal") for text in chains.BY_CHANNEL),
]


def operands(text, shapes, values):
    used = {name: shape for name, shape in shapes.items() if name in re.findall(r"[a-z_]\w*", text)}
    return support.operands_of(used, 1, values)


def reals(results):
    return [one for one in (results if isinstance(results, tuple) else (results,)) if one.is_floating_point()]


@pytest.mark.parametrize("text, shapes, values", CHAINS, ids=[text for text, _, _ in CHAINS])
def test_gradcheck(text, shapes, values):
    tail, given = as_written(text), operands(text, shapes, values)
    arrays = [given[name].requires_grad_() for name in tail.inputs]
    assert torch.autograd.gradcheck(lambda *arrays: tuple(reals(tail(*arrays))), arrays, nondet_tol=0.0)


@pytest.mark.parametrize("dtype", UNITS, ids=str)
@pytest.mark.parametrize("text, shapes, values", CHAINS, ids=[text for text, _, _ in CHAINS])
def test_gradients_in_the_types_of_storage(text, shapes, values, dtype):
    tail, given = as_written(text), operands(text, shapes, values)
    leaves = {name: one.to(dtype).requires_grad_() for name, one in given.items()}
    exact = {name: one.detach().double().requires_grad_() for name, one in leaves.items()}
    found = reals(tail(*(leaves[name] for name in tail.inputs)))
    wanted = [one for one in run_chain(text, exact) if one.requires_grad]
    weights = [torch.randn(one.shape).to(dtype) for one in found]
    torch.autograd.backward(found, weights)
    wanted = [one.expand_as(other) if one.dim() <= other.dim() else one for one, other in zip(wanted, found)]
    torch.autograd.backward(wanted, [one.double() for one in weights])
    for name, one in leaves.items():
        assert one.grad.dtype == dtype and one.grad.shape == one.shape
        bound = UNITS[dtype] * torch.finfo(dtype).eps + 64 * torch.finfo(torch.float32).eps
        assert support.difference(one.grad.double(), exact[name].grad) <= bound, name


X, B = torch.linspace(-2, 2, 24).reshape(4, 6), torch.linspace(-1, 1, 6)
GELU = as_written("gelu(x + b)")
NORM = as_written("layer_norm(x, w, b)")


def leaves(*tensors):
    return [one.clone().requires_grad_() for one in tensors]


def launches():
    return sum(engine["launches"] for engine in epifuse.stats().values())


def launched(call):
    before = launches()
    call()
    return launches() - before


def test_only_wanted_gradients_are_computed():
    x, w, b = leaves(X, B, B)
    assert launched(lambda: NORM(x, w, b).sum().backward()) == 2  # one kernel for dx, dw and db
    assert all(one.grad is not None for one in (x, w, b))
    assert launched(lambda: NORM(x, w.detach(), b.detach()).sum().backward()) == 2
    y = NORM(x, w, b).sum()
    assert launched(lambda: torch.autograd.grad(y, w)) == 1  # PyTorch does not say that x and b are not asked for


def test_broadcast_operands_get_sums():
    for shape in ((), (1,), (6,), (4, 1), (1, 6), (4, 6)):
        (b,) = leaves(torch.full(shape, 0.5))
        GELU(X, b).sum().backward()
        (want,) = torch.autograd.grad(F.gelu(X + b).sum(), b)
        torch.testing.assert_close(b.grad, want)


def test_run_time_scalars_and_names():
    tail = as_written("scalar s; x * s + b * q", ["q"])
    x, b = leaves(X, B)
    tail(x, b=b, q=3.0, s=2.0).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 2)) and torch.equal(b.grad, torch.full_like(b, 12))


def test_results_without_gradients():
    (x,) = leaves(X)
    y, positive, unused = epifuse.compile("y = tanh(x); return y, x > 0, y * x")(x)
    assert y.requires_grad and not positive.requires_grad
    y.sum().backward()  # nothing reaches `unused`
    torch.testing.assert_close(x.grad, 1 - torch.tanh(X) ** 2)


def test_an_operand_that_is_only_compared_has_none():
    x, b = leaves(X, B)
    as_written("where(x > 0, b, 0)")(x, b).sum().backward()
    assert x.grad is None and torch.equal(b.grad, (X > 0).sum(0).float())


def test_gradients_lie_as_their_operands():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_()
    y = epifuse.compile("silu(x)")(x)
    y.backward(torch.randn_like(y))
    assert x.grad.stride() == x.stride()


def test_fused_functions_record():
    @epifuse.fuse
    def tail(x, b, alpha):
        return F.gelu(x + b) * alpha

    x, b = leaves(X, B)
    tail(x, b, 0.5).sum().backward()
    want = torch.autograd.grad((F.gelu(x + b) * 0.5).sum(), (x, b))
    torch.testing.assert_close((x.grad, b.grad), want)


def test_what_was_saved():
    x, b = leaves(X, B)
    h = x * 1
    y = GELU(h, b)
    h.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = GELU(x, b).sum()
    y.backward()
    before = launches()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    assert launches() == before
    y = NORM(x, b, b).sum()
    y.backward(retain_graph=True)
    y.backward()


@pytest.mark.parametrize("write", [False, True], ids=["new", "out="])
@pytest.mark.parametrize("tail", [GELU, NORM], ids=["gelu", "norm"])
def test_what_was_released_is_not_launched_with(tail, write):
    def call():
        """A step whose operands nobody else has."""
        h, w, b = (one * 1 for one in leaves(X, B, B))
        given = [dict(x=h, w=w, b=b)[name] for name in tail.inputs]
        return (tail(*given, out=torch.empty_like(X)) if write else tail(*given)), given

    y, given = call()
    want = torch.autograd.grad(y.sum(), given, retain_graph=True)
    found = torch.autograd.grad(y.sum(), given, retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(found, want))
    shapes = [one.shape for one in given]
    del given
    gc.collect()
    others = [torch.full(shape, torch.nan) for shape in shapes * 20]  # takes the memory, if it was given back
    y.sum().backward()  # what is saved lives as long as the graph
    before = launches()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()
    assert launches() == before and len(others) == 20 * len(shapes)


def test_operands_of_integers_and_truth_values_get_no_gradient():
    (x,) = leaves(X)
    ints, truth = torch.arange(24, dtype=torch.int32).reshape(4, 6), X > 0
    tail = as_written("where(m, x * i, x)")
    tail(*(dict(x=x, i=ints, m=truth)[name] for name in tail.inputs)).sum().backward()
    torch.testing.assert_close(x.grad, torch.where(truth, ints, 1).float())
    x.grad = None
    positions = as_written("where(cast(x, i32) == i, x, 0)")  # nothing passes the cast and the comparison
    positions(*(dict(x=x, i=ints)[name] for name in positions.inputs)).sum().backward()
    torch.testing.assert_close(x.grad, (X.int() == ints).float())


def test_nothing_is_recorded_without_gradients():
    x, b = leaves(X, B)
    with torch.no_grad():
        assert GELU(x, b).grad_fn is None
    with torch.inference_mode():
        assert GELU(x, b).is_inference()
    assert GELU(X, B).grad_fn is None


def test_in_place():
    relu = as_written("relu(x + b)")
    x, b = leaves(X, B)
    h = x * 1
    assert relu(h, b, out=h) is h
    h.sum().backward()
    want = torch.autograd.grad(F.relu(X.requires_grad_() + b).sum(), (X, b))
    X.requires_grad_(False)
    torch.testing.assert_close((x.grad, b.grad), want)
    with pytest.raises(ValueError, match="needs operand 'x', which the forward pass writes a result over"):
        h = x * 1
        GELU(h, b, out=h)
    with pytest.raises(ValueError, match="needs operand 'x'"):  # other names of the same memory, too
        h = x * 1
        GELU(h, b, out=h[:])
    with pytest.raises(ValueError, match="a leaf that requires grad"):
        relu(x, b, out=x)


def test_out():
    x, b = leaves(X, B)
    y = torch.empty_like(X)
    assert GELU(x, b, out=y) is y and y.requires_grad
    y.sum().backward()
    torch.testing.assert_close((x.grad, b.grad), torch.autograd.grad(F.gelu(x + b).sum(), (x, b)))
    y, saved = torch.empty_like(X), torch.ones_like(X, requires_grad=True)
    product = (saved * y).sum()
    GELU(x, b, out=y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    first, second = torch.empty_like(X), torch.empty_like(X)
    as_written("return x * 2, x * b")(x, b, out=(first, second))
    x.grad = None
    (first + second).sum().backward()
    torch.testing.assert_close(x.grad, (2 + B).expand_as(X))


def rows(base, text):
    """The part of a tensor that a test writes."""
    return {"rows": base[2:6], "columns": base.t()[:, 2:6].t(), "a view of a view": base[1:][1:5]}[text]


@pytest.mark.parametrize("part", ["rows", "columns", "a view of a view"])
@pytest.mark.parametrize("recorded", [False, True], ids=["new memory", "a value with a gradient"])
def test_out_is_a_view(part, recorded):
    def step(write):
        (x, b, source) = leaves(X, B, torch.ones(8, 6))
        base = source * 3 if recorded else torch.full((8, 6), 3.0)
        write(x, b, rows(base, part))
        (base * torch.arange(1, 49).reshape(8, 6)).sum().backward()
        return [x.grad, b.grad] + ([source.grad] if recorded else [])

    ours = step(lambda x, b, view: GELU(x, b, out=view))
    torch.testing.assert_close(ours, step(lambda x, b, view: view.copy_(F.gelu(x + b))))


@pytest.mark.parametrize("text", ["x * 2 + b * 3", "b * 3 + x * 2", "where(x > 0, b, 0)", "where(b > 0, b, x)"])
def test_in_place_on_a_view(text):
    def step(write):
        x, b = leaves(X, B)
        base = x * 1
        write(base[1:3], b)
        (base * torch.arange(1, 25).reshape(4, 6)).sum().backward()
        return x.grad, b.grad

    tail = as_written(text)
    ours = step(lambda view, b: tail(*(dict(x=view, b=b)[name] for name in tail.inputs), out=view))
    torch.testing.assert_close(ours, step(lambda view, b: view.copy_(run_chain(text, {"x": view.clone(), "b": b})[0])))


def test_a_tensor_that_is_several_operands_is_written():
    (x,) = leaves(X)
    h = x * 1
    epifuse.compile("input a, b; a * 2 + b * 3")(h, h, out=h)
    h.sum().backward()
    assert torch.equal(x.grad, torch.full_like(X, 5))


@pytest.mark.parametrize("parts", [lambda base: (base[:4], base[4:]), lambda base: (base[4:], torch.empty_like(X))])
def test_several_results_of_which_one_is_a_view(parts):
    def step(write):
        x, source = leaves(X, torch.ones(8, 6))
        base = source * 3
        views = parts(base)
        write(x, views)
        (base.square().sum() + sum((one**3).sum() for one in views)).backward()
        return x.grad, source.grad

    def theirs(x, views):
        for view, result in zip(views, (torch.tanh(x), x * 2)):
            view.copy_(result)

    tail = epifuse.compile("return tanh(x), x * 2")
    torch.testing.assert_close(step(lambda x, views: tail(x, out=views)), step(theirs))


def not_writable():
    leaf = torch.zeros(8, 6, requires_grad=True)
    value = leaf * 1
    with torch.no_grad():
        unrecorded = value[:4]
    with torch.inference_mode():
        inference = torch.zeros(4, 6)
    return {
        "a leaf that requires grad": (leaf, leaf[:4].detach().requires_grad_()),
        "a view of a leaf": (leaf, leaf[:4]),
        "is a view and is being modified": (value, value.chunk(2)[0]),
        "created in no_grad mode": (value, unrecorded),
        "made under torch.inference_mode": (inference, inference),
    }


@pytest.mark.parametrize("message", not_writable())
@pytest.mark.parametrize("results", [1, 2])
def test_what_autograd_cannot_write_is_not_written(message, results):
    memory, target = not_writable()[message]
    (x,) = leaves(X)
    other = torch.zeros_like(X)
    tail = epifuse.compile("gelu(x) + 1" if results == 1 else "return tanh(x) + 1, gelu(x) + 1")
    with pytest.raises((RuntimeError, ValueError), match=message):
        tail(x, out=target if results == 1 else (other, target))
    assert not any(one.detach().any() for one in (memory, other, target))
    assert not other.requires_grad


def test_prepare_compiles_both_passes():
    x, w, b = leaves(X, B, B)
    assert launched(lambda: NORM.prepare(x, w, b)) == 0


REFUSED = [
    ("x > b", "operands 'x', 'b' require grad, and no result of the chain has a gradient: comparisons"),
    ("cast(x, i32) + cast(b, i32)", "no result of the chain has a gradient"),
]


@pytest.mark.parametrize("text, message", REFUSED)
def test_refused_before_anything_runs(text, message):
    x, b = leaves(X, B)
    before = launches()
    with pytest.raises(ValueError, match=re.escape(message)):
        as_written(text)(x, b)
    assert launches() == before


def agrees(text, **given):
    """Gradients of a tail against PyTorch's; how many kernels both passes were."""
    tail = as_written(text)
    found, exact = ({name: one.clone().requires_grad_() for name, one in given.items()} for _ in range(2))

    def run():
        results = tail(*(found[name] for name in tail.inputs))
        results = results if isinstance(results, tuple) else (results,)
        sum(((i + 1) * one.double() ** 2).sum() for i, one in enumerate(results)).backward()

    count = launched(run)
    sum(((i + 1) * one.double() ** 2).sum() for i, one in enumerate(run_chain(text, exact))).backward()
    for name in given:
        torch.testing.assert_close(found[name].grad, exact[name].grad)
    return count


@pytest.mark.parametrize("shape", [(8, 6), (4, 6, 5), (2, 6, 3, 4)], ids=str)
@pytest.mark.parametrize("how", ["tail", "function", "backend"])
def test_batch_norm(shape, how):
    def function(x, w, b):
        return F.batch_norm(x, None, None, w, b, True)

    torch._dynamo.reset()
    ours = {
        "tail": epifuse.compile("input x, w, b; batch_norm(x, w, b)"),
        "function": epifuse.fuse(function),
        "backend": torch.compile(function, backend=epifuse.backend, options={"producers": "eager"}),
    }[how]
    torch.manual_seed(0)
    given = torch.randn(shape), torch.randn(6), torch.randn(6)
    dout = torch.randn(shape)
    found, wanted = (torch.autograd.grad(one(*of), of, dout) for one in (ours, function) for of in [leaves(*given)])
    torch.testing.assert_close(found, wanted)


def test_passes_that_the_planner_refuses_are_several_kernels():
    x, y = torch.randn(4, 2, 4), torch.randn(2, 1)
    # One each: rows side by side keep their sums.
    assert agrees("t = x / (1 + abs(x + y)); return mean(rms_norm(t, axis=1), axis=1), t", x=x, y=y) == 2
    x, w, b = torch.randn(2, 6, 5), torch.randn(5), torch.randn(5)
    assert agrees("gelu(layer_norm(x + w, w, b))", x=x, w=w, b=b) == 2  # one each: nothing is refused
    # What is saved has fewer dimensions than the rows of the rest.
    assert agrees("t0 = softmax(z, 0); return minimum(t0, x)", z=torch.randn(1), x=torch.randn(2)) > 2


def test_parts_compute_as_the_whole_does():
    from epifuse._core import Launcher
    from epifuse._stages import stages

    chain = "return var(x * 2, 0), sum(x, 1) * b"  # of columns and of rows; the former reads nothing of f64
    operands = {"x": ("f32", (4, 6)), "b": ("f64", (4,))}
    found = stages(chain, tuple(operands.values()), ("f64", "f64"))
    assert Launcher(chain).inputs == list(operands) and len(found.kernels) == 2
    spec = dict(zip(found.operands, operands.values()))
    for kernel in found.kernels:
        launcher = Launcher(kernel.text)
        assert set(launcher.inputs) <= set(operands)  # by their own names
        assert launcher.compute_type([spec[i] for i in kernel.reads], kernel.dtypes) == "f64"


def test_a_result_that_was_rounded_is_saved_where_that_matters():
    x, b = leaves(X.half() * 1.001, B.half() * 1.001)
    largest = as_written("amax(x * b, axis=1)")(x, b)
    largest.sum().backward()
    assert (x.grad != 0).sum() == 4
    (x,) = leaves(X)
    halves = epifuse.compile("y = sigmoid(x); return y, y * 255", dtype=["f32", "u8"])(x)
    halves[0].sum().backward()
    y = torch.sigmoid(X)
    torch.testing.assert_close(x.grad, y * (1 - y))
    with torch.no_grad():
        assert epifuse.compile("sigmoid(x) * 255", dtype="u8")(x).dtype == torch.uint8


def test_a_gradient_that_no_chain_computes_is_an_error():
    x, w = torch.randn(2, 70, requires_grad=True), torch.randn(2, requires_grad=True)
    with pytest.raises(ValueError, match="adds up windows of more than 64 elements"):
        epifuse.compile("input x, w; sum(exp(unfold(x, -1, 70, 1)), (1, 2)) * w")(x, w)


TIES = {
    "max of a dimension": lambda x: x.max(1).values * 2,
    "max of a dimension, kept": lambda x: torch.max(x, -1, True)[0] + x,
    "min of a dimension": lambda x: x.min(dim=1)[0] * 2,
    "max": lambda x: x.max() * 2,
    "amax": lambda x: x.amax(1) * 2,
    "largest of a row without the softmax": lambda x: x - x.max(-1, keepdim=True).values,
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 2) * 2,
    "max_pool1d": lambda x: F.max_pool1d(x, 3, 2, 1) * 2,
}


@pytest.mark.parametrize("function", TIES.values(), ids=TIES)
def test_the_gradient_of_ties_is_pytorchs(function):
    rows = [[1.0, 2.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0], [3.0, -1.0, 3.0, -1.0]]
    theirs, ours = (torch.tensor(rows, requires_grad=True) for _ in range(2))
    weights = torch.arange(1.0, 1 + function(theirs).numel()).reshape(function(theirs).shape)
    (function(theirs) * weights).sum().backward()
    (epifuse.fuse(function)(ours) * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("call", [as_written("gelu(x)"), as_written("gelu(x)").prepare], ids=["call", "prepare"])
@pytest.mark.parametrize("out", [None, torch.zeros_like(X)], ids=["new", "out="])
def test_types_that_a_chain_does_not_have(call, out):
    message = "operand 'x' is complex64, which a chain does not have: .* expected one of float64, float32"
    with pytest.raises(ValueError, match=message):
        call(X.to(torch.complex64).requires_grad_(), out=out)
    if out is not None:
        with pytest.raises(ValueError, match="out is complex64, which a chain does not have"):
            epifuse.compile("gelu(x)")(*leaves(X), out=out.to(torch.complex64))


def test_other_frameworks_are_refused():
    numpy = pytest.importorskip("numpy")
    (x,) = leaves(X)
    with pytest.raises(TypeError, match="operand 'b' is numpy.ndarray: where autograd records"):
        GELU(x, numpy.ones(6, numpy.float32))


def test_the_second_derivative_is_refused():
    (x,) = leaves(X)
    (first,) = torch.autograd.grad(GELU(x, B).sum(), x, create_graph=True)
    torch.testing.assert_close(first, torch.autograd.grad(F.gelu(x + B).sum(), x)[0])
    with pytest.raises(epifuse.Error, match="the gradient of a tail's gradient is not recorded"):
        first.sum().backward()


def test_a_tracer_of_real_tensors_sees_operators():
    from torch.fx.experimental.proxy_tensor import make_fx

    x, b = leaves(X, B)
    targets = {node.target for node in make_fx(lambda x, b: GELU(x, b))(x, b).graph.nodes}
    assert torch.ops.epifuse.recorded.default in targets


def test_a_call_is_planned_once_by_types_shapes_and_wanted_gradients():
    from epifuse import _autograd

    def planned(*operands):
        before = _autograd._recording.cache_info().misses
        GELU(*operands)
        return _autograd._recording.cache_info().misses - before

    x, b = leaves(torch.randn(5, 7), torch.randn(7))
    assert planned(x, b) == 1
    assert [planned(x * 2, b), planned(*leaves(x.detach(), b.detach()))] == [0, 0]
    turned = x.detach().t().contiguous().t()
    others = [(x.detach(), b), (x[:3], b), leaves(x.detach().half(), b.detach()), (turned.requires_grad_(), b)]
    assert [planned(*one) for one in others] == [1] * 4


def test_transforms_of_functions_are_refused():
    with pytest.raises((RuntimeError, ValueError)):
        torch.func.grad(lambda x: GELU(x, B).sum())(X)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", "epifuse"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_tail_in_a_compiled_model(backend, dynamic):
    torch._dynamo.reset()

    def model(x, w, b):
        return NORM(x * 2, w, b).square().mean()

    x, w, b = leaves(X, B, B)
    backend = epifuse.backend if backend == "epifuse" else backend
    torch.compile(model, backend=backend, dynamic=dynamic, fullgraph=True)(x, w, b).backward()
    want = torch.autograd.grad(F.layer_norm(x * 2, (6,), w, b).square().mean(), (x, w, b))
    torch.testing.assert_close((x.grad, w.grad, b.grad), want)
