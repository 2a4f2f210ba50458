"""torch.compile(backend="epifuse"): views, joined tensors, windows and positions in its graphs, against eager PyTorch."""

import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402

import epifuse  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(function, *inputs, dynamic=None, producers="eager", rtol=1e-4, atol=2e-5):
    """The report of the function's graph; its results are checked against eager PyTorch's."""
    with torch.no_grad():
        want = function(*inputs)
        run = torch.compile(function, backend="epifuse", dynamic=dynamic, options={"producers": producers})
        found = run(*inputs)
    check(found, want, rtol, atol)
    report = epifuse.reports()[-1]
    assert report.producers == producers and not report.fallback, report
    return report, run


def check(found, want, rtol=1e-4, atol=2e-5):
    for a, b in zip(*(one if isinstance(one, tuple) else (one,) for one in (found, want)), strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)
        assert a.stride() == b.stride()


# ---- rotary embedding


def halves(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def rotary(q, cos, sin):
    """As Llama's models have it."""
    return q * cos + halves(q) * sin


def rotary_of_chunks(q, cos, sin):
    x1, x2 = q.chunk(2, -1)
    return q * cos + torch.cat((-x2, x1), -1) * sin


def rotary_of_a_projection(q, cos, sin):
    """As it stands in attention: the heads of a projection, and the tables of a position."""
    batch, heads, length, width = q.shape
    flat = q.transpose(1, 2).reshape(batch, length, heads * width)
    q = flat.view(batch, length, heads, width).transpose(1, 2)
    return q * cos.unsqueeze(0).unsqueeze(1) + halves(q) * sin.unsqueeze(0).unsqueeze(1)


def rotary_of_computed(q, cos, sin):
    return rotary(q * 2 + 1, cos, sin)


def pairs(q, cos, sin):
    """As GPT-J's have it."""
    a, b = q[..., ::2], q[..., 1::2]
    cos, sin = cos[..., ::2], sin[..., ::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def pairs_unbound(q, cos, sin):
    a, b = q.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos.chunk(2, -1)[0], sin.chunk(2, -1)[0]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


ROTARY = [rotary, rotary_of_chunks, rotary_of_a_projection, rotary_of_computed, pairs, pairs_unbound]


def of_heads(length=6, dtype=torch.float32):
    return [torch.randn(*shape).to(dtype) for shape in ((2, 4, length, 8), (length, 8), (length, 8))]


@pytest.mark.parametrize("producers", ["eager", "inductor"])
@pytest.mark.parametrize("function", ROTARY)
def test_a_rotary_embedding_is_one_kernel(function, producers):
    report, _ = compiled(function, *of_heads(), producers=producers)
    assert len(report.kernels) == 1 and not report.left, report


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_rotary_embedding_of_16_bits_rounds_once(dtype):
    inputs = of_heads(dtype=dtype)
    with torch.no_grad():
        exact = rotary(*(one.double() for one in inputs))
        found = torch.compile(rotary, backend="epifuse")(*inputs)
    assert found.dtype is dtype and len(epifuse.reports()[-1].kernels) == 1
    assert torch.equal(found, exact.to(dtype))


@pytest.mark.parametrize("norm", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize("function", [rotary, rotary_of_chunks], ids=["slices", "chunks"])
def test_a_norm_of_heads_and_its_rotary_embedding_are_one_kernel(function, norm):
    """As Qwen's models have it: the heads of queries and keys are normalised before they are rotated."""
    q = torch.randn(2, 9, 4, 32)
    weight, cos, sin = torch.randn(32), torch.randn(9, 1, 32), torch.randn(9, 1, 32)
    report, _ = compiled(lambda q, w, c, s: function(getattr(F, norm)(q, (32,), w, eps=1e-5), c, s), q, weight, cos, sin)
    assert len(report.kernels) == 1 and not report.left, report


def test_a_rotary_embedding_reads_its_operand_once():
    """The halves are the chain's own views: three operands, and no slice in the graph."""
    report, _ = compiled(rotary, *of_heads())
    assert "slice" not in report.text and set(re.findall(r"x\d", report.kernels[0])) == {"x0", "x1", "x2"}


def test_queries_and_keys_of_one_model():
    def both(q, k, cos, sin):
        return rotary(q, cos, sin), rotary(k, cos, sin)

    q, cos, sin = of_heads()
    report, _ = compiled(both, q, torch.randn(2, 2, 6, 8), cos, sin)
    assert len(report.kernels) == 2 and not report.left


@pytest.mark.parametrize("producers", ["eager", "inductor"])
def test_a_rotary_embedding_of_any_length(producers):
    inputs = of_heads()
    for one, axis in zip(inputs, (2, 0, 0)):
        torch._dynamo.mark_dynamic(one, axis)
    report, run = compiled(rotary, *inputs, producers=producers)
    count = len(epifuse.reports())
    more = of_heads(11)
    with torch.no_grad():
        check(run(*more), rotary(*more))
    assert len(epifuse.reports()) == count and len(report.kernels) == 1, report


@pytest.mark.parametrize("function", ROTARY)
def test_rotary_embeddings_train(function):
    inputs = [one.requires_grad_() for one in of_heads()]
    weight = torch.randn(2, 4, 6, 8)
    want = torch.autograd.grad((function(*inputs) * weight).sum(), inputs)
    run = torch.compile(function, backend="epifuse", options={"producers": "eager"})
    found = torch.autograd.grad((run(*inputs) * weight).sum(), inputs)
    for a, b in zip(found, want):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-5)


# ---- views


X = (4, 6, 8)
VIEWS = {
    "gates": (lambda x: (lambda a, b: F.silu(a) * b)(*x.chunk(2, -1)), [X]),
    "gates of a product": (lambda x, w: (lambda a, b: F.silu(a) * b)(*(x @ w * 2).chunk(2, -1)), [(5, 6), (6, 8)]),
    "F.glu": (lambda x: F.glu(x), [X]),
    "slices with steps": (lambda x: (x * 2)[..., ::2] + (x * 2)[..., 1::2], [X]),
    "an element": (lambda x: torch.tanh(x).select(1, -2) + 1, [X]),
    "a transposed summand": (lambda x: (lambda y: y + y.t())(torch.exp(x)), [(7, 7)]),
    "permuted": (lambda x, y: torch.exp(x).permute(2, 0, 1) * y, [X, (8, 4, 6)]),
    "flipped": (lambda x: torch.exp(x).flip((0, -1)) + x, [X]),
    "joined and worked on": (lambda x, y, z: torch.relu(torch.cat((x * 2, y), 1) + z), [(3, 4), (3, 4), (3, 8)]),
    "stacked": (lambda x, y: torch.stack((x.exp(), y.sin(), x * y), 1).tanh(), [(3, 4), (3, 4)]),
    "joined of two types": (lambda x, y: torch.cat((x.half(), y), 0) * 2, [(3, 4), (3, 4)]),
    "joined truths": (lambda x, y: torch.cat((x > 0, y > 0), 0) & (x[0] > y[0]), [(3, 4), (3, 4)]),
    "joined of several sizes": (lambda x, y: torch.cat((x * 2, y + 1), 1).relu() * 3, [(3, 4), (3, 7)]),
    "a sum over what is joined": (lambda x, y: torch.cat((x * 2, y), 1).sum(1) + 1, [(3, 4), (3, 7)]),
    "rolled": (lambda x: torch.roll(x.exp(), 3, 1) + torch.roll(x, (1, -2), (0, 1)), [(3, 8)]),
    "padded": (lambda x: F.pad(x.exp(), (1, 2, 0, 1), value=0.5) * 2, [(3, 8)]),
    "padded and cut": (lambda x: F.pad(x.exp(), (-1, 2)).relu() + 1, [(3, 8)]),
    "padded truths": (lambda x: F.pad(x > 0, (1, 1), value=True).float() + 1, [(3, 8)]),
    "repeated": (lambda x, y: x.exp().unsqueeze(2).expand(3, 4, 5).reshape(3, 20) + y, [(3, 4), (3, 20)]),
    "split": (lambda x: (lambda a, b, c: a * b + c)(*x.exp().split(2, -1)), [(3, 6)]),
    "split by sizes": (lambda x: (lambda a, b, c: a * b + c[..., 1:])(*x.split([2, 2, 3], -1)), [(3, 7)]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_the_kernels(name):
    function, shapes = VIEWS[name]
    report, _ = compiled(function, *(torch.randn(shape) for shape in shapes))
    assert len(report.kernels) == 1 and not set(report.left) - {("mm", "not an operation that EpiFuse has")}, report


def test_views_of_results_share_their_memory():
    def function(x):
        y = x.exp() + 1
        return y, y[1:], y.t(), y.split(2, 1)[1]

    report, run = compiled(function, torch.randn(4, 6))
    made = run(torch.randn(4, 6))
    assert len({one.untyped_storage().data_ptr() for one in made}) == 1 and len(report.kernels) == 1


def test_a_result_over_no_operand_that_another_view_reads():
    """A product that nothing else needs is written over, but not where its transpose is read, too."""

    def function(x, w):
        y = x @ w
        return (y + y.t()) * 2

    for producers in ("eager", "inductor"):
        report, _ = compiled(function, torch.randn(64, 48), torch.randn(48, 64), producers=producers)
        assert len(report.kernels) == 1


# ---- windows


IMAGE = (2, 3, 8, 12)
WINDOWS = {
    "max_pool2d": (lambda x: F.mish(F.max_pool2d(F.hardswish(x - 0.5), 2)), IMAGE),
    "max_pool2d, steps": (lambda x: F.mish(F.max_pool2d(x * 2, (2, 3), (4, 3))), IMAGE),
    "max_pool2d, dilated": (lambda x: F.mish(F.max_pool2d(x, 2, 1, 0, 2)), IMAGE),
    "max_pool2d, overlapping": (lambda x: F.mish(F.max_pool2d(x, 3, 1)), IMAGE),
    "max_pool2d, padded": (lambda x: F.max_pool2d(x, 3, 2, 1) + 1, IMAGE),
    "max_pool2d, ceil_mode": (lambda x: F.max_pool2d(x, (3, 5), ceil_mode=True) + 1, IMAGE),
    "max_pool1d, padded, dilated": (lambda x: F.max_pool1d(x, 3, 1, 1, 2) + 1, (3, 4, 10)),
    "max_pool2d, padded, ceil_mode": (lambda x: F.max_pool2d(x, 3, 2, 1, 1, True) + 1, (2, 3, 7, 8)),
    "avg_pool2d, padded": (lambda x: F.avg_pool2d(x, 3, 1, 1) + 1, IMAGE),
    "avg_pool2d, padding not counted": (lambda x: F.avg_pool2d(x, 3, 2, 1, True, False) + 1, (2, 3, 7, 8)),
    "avg_pool2d, ceil_mode": (lambda x: F.avg_pool2d(x.exp(), (3, 5), ceil_mode=True) + 1, IMAGE),
    "avg_pool2d, beyond the padding": (lambda x: F.avg_pool2d(x, 3, 2, 1, True) + 1, (2, 3, 8, 9)),
    "avg_pool3d, padded": (lambda x: F.avg_pool3d(x, 2, 2, 1) + 1, (2, 3, 4, 4, 4)),
    "max_pool2d, ceil_mode that adds none": (lambda x: F.max_pool2d(x.exp(), 2, ceil_mode=True), IMAGE),
    "max_pool2d, large": (lambda x: F.max_pool2d(x.exp(), (8, 12)) + 1, (2, 3, 16, 12)),
    "max_pool1d": (lambda x: F.max_pool1d(x.exp(), 2) + 1, (3, 4, 10)),
    "max_pool3d": (lambda x: F.max_pool3d(x.exp(), 2) + 1, (2, 3, 4, 4, 4)),
    "avg_pool2d": (lambda x: F.mish(F.avg_pool2d(x.exp(), 2)), IMAGE),
    "avg_pool2d, a divisor": (lambda x: F.avg_pool2d(x.exp(), 2, divisor_override=3) + 1, IMAGE),
    "max_pool2d, large and overlapping": (lambda x: F.max_pool2d(x, 9, 2) + 1, (2, 3, 14, 12)),
    "avg_pool2d, large and cut off": (lambda x: F.avg_pool2d(x.exp(), 9, 10) + 1, (2, 3, 19, 25)),
    "max_pool2d, large and padded": (lambda x: F.max_pool2d(x, 9, 1, 4) + 1, IMAGE),
    "max_pool2d, large, padded, ceil_mode": (lambda x: F.max_pool2d(x, (9, 11), 4, (4, 3), 1, True) + 1, IMAGE),
    "max_pool1d, large, padded, dilated": (lambda x: F.max_pool1d(x, 70, 3, 30, 2) + 1, (3, 4, 150)),
    "max_pool3d, large and padded": (lambda x: F.max_pool3d(x, 5, 2, 2) + 1, (2, 3, 6, 7, 8)),
    "avg_pool2d, large and padded": (lambda x: F.avg_pool2d(x, 9, 2, 3) + 1, IMAGE),
    "avg_pool2d, large, ceil_mode": (lambda x: F.avg_pool2d(x, (9, 11), 4, (4, 3), True) + 1, IMAGE),
    "avg_pool2d, large, padding not counted": (lambda x: F.avg_pool2d(x, 9, 2, 3, True, False) + 1, IMAGE),
    "avg_pool3d, large, a divisor": (lambda x: F.avg_pool3d(x, 5, 2, 2, True, True, 7) + 1, (2, 3, 6, 7, 8)),
    "lp_pool2d, large, ceil_mode": (lambda x: F.lp_pool2d(x.exp(), 2, 9, 10, True) + 1, IMAGE),
    "avg_pool2d, large": (lambda x: F.avg_pool2d(x.exp(), (8, 12)) + 1, (2, 3, 16, 12)),
    "avg_pool1d": (lambda x: F.avg_pool1d(x.exp(), 5) + 1, (3, 4, 10)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x.exp(), 2) + 1, (2, 3, 4, 4, 4)),
    "lp_pool2d": (lambda x: F.lp_pool2d(x.exp(), 2, 2) + 1, IMAGE),
    "adaptive_avg_pool2d": (lambda x: F.mish(F.adaptive_avg_pool2d(x.exp(), (4, 3))), IMAGE),
    "adaptive_avg_pool2d to one": (lambda x: F.mish(F.adaptive_avg_pool2d(x.exp(), 1)), IMAGE),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x.exp(), 5) + 1, (3, 4, 10)),
    "adaptive_max_pool2d": (lambda x: F.mish(F.adaptive_max_pool2d(x.exp(), (4, 3))), IMAGE),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x.exp(), 2) + 1, (2, 12, 4, 5)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x.exp(), 2) + 1, IMAGE),
    "interpolate": (lambda x: F.interpolate(x.exp(), scale_factor=2) + 1, IMAGE),
    "interpolate, sizes": (lambda x: F.interpolate(x.exp(), (24, 12)) + 1, IMAGE),
    "interpolate, exact": (lambda x: F.interpolate(x.exp(), scale_factor=3, mode="nearest-exact") + 1, (2, 3, 5)),
    "torch.nn.Upsample": (lambda x: torch.nn.Upsample(scale_factor=(2, 1, 3))(x.exp()) + 1, (2, 3, 2, 3, 4)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_join_their_neighbours(name, dtype):
    function, shape = WINDOWS[name]
    x = torch.randn(shape, dtype=torch.float64).to(dtype)
    if dtype is torch.float16 and name.startswith("avg_pool3d"):
        pytest.skip("PyTorch has none of 16 bits on the CPU")
    tolerance = {"rtol": 4e-3, "atol": 4e-3} if dtype is torch.float16 else {}
    report, _ = compiled(function, x, **tolerance)
    assert len(report.kernels) == 1 and not report.left, report


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "pixel_shuffle", "interpolate"])
def test_windows_of_channels_last_images(name):
    function, shape = WINDOWS[name]
    report, _ = compiled(function, torch.randn(shape).to(memory_format=torch.channels_last))
    assert report.kernels


def test_the_largest_of_a_window_with_a_nan_is_a_nan():
    x = torch.randn(IMAGE)
    x[0, 0, 0, 0], x[0, 1, 1, 1], x[1, 0, :2, :2] = float("nan"), float("inf"), -float("inf")
    with torch.no_grad():
        found = torch.compile(WINDOWS["max_pool2d"][0], backend="epifuse")(x)
    torch.testing.assert_close(found, WINDOWS["max_pool2d"][0](x), equal_nan=True)


LEFT = {  # what stays PyTorch's, and why
    "a line": (lambda x: torch.roll(x, 3) + 1, IMAGE, "it rolls all elements as one line"),
    "other padding": (lambda x: F.pad(x, (1, 1), "reflect") + 1, (2, 3, 7), "not an operation that EpiFuse has"),
    "uneven": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)) + 1, IMAGE, "its windows are of several sizes"),
    "numbers": (lambda x: F.max_pool2d(x.exp(), 2, return_indices=True)[1], IMAGE, "its result number 1 is used"),
    "copied": (lambda x, y: torch.cat((x, y), 1).exp().cumsum(0), IMAGE, ""),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_stays_pytorchs_says_why(name):
    function, shape, why = LEFT[name]
    inputs = [torch.randn(shape) for _ in range(function.__code__.co_argcount)]
    report, _ = compiled(function, *inputs)
    left = {told for what, told in report.left if what not in ("add", "cumsum")}
    assert report.kernels and len(left) == bool(why) and all(told.startswith(why) for told in left), report


def test_what_overlapping_windows_look_at_is_computed_once():
    report, _ = compiled(lambda x: F.avg_pool2d(x.exp(), 3, 1) + 1, torch.randn(IMAGE))
    assert report.fused == [["exp"], ["avg_pool2d", "add"]]


def test_tensors_that_are_joined_and_nothing_else_stay_pytorchs():
    report, _ = compiled(lambda x, y: torch.cat((x, y), 1).cumsum(0), torch.randn(4, 5), torch.randn(4, 5))
    assert not report.kernels and ("cat", "a copy and nothing else") in report.left


# ---- positions


POSITIONS = {
    "argmax": lambda x: (x * 2).argmax(-1),
    "argmin, kept": lambda x: (x * 2).argmin(0, keepdim=True),
    "argmax of all": lambda x: (x + 1).argmax(),
    "max": lambda x: (x * 2).max(-1),
    "min": lambda x: torch.min(x * 2, 1, keepdim=True),
    "tril": lambda x: (x * 2).tril(-1).exp(),
    "triu of truths": lambda x: (x > 0).triu(1) | (x < -1),
    "tril of integers": lambda x: (x > 0).to(torch.uint8).tril() * 2,
    "a causal softmax": lambda x: (x.masked_fill((x == x).triu(1), -float("inf"))).softmax(-1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", POSITIONS)
def test_positions(name, dtype):
    x = torch.randint(-9, 9, (3, 5, 7)).to(dtype)  # of which many are equal
    x[0, 1, 2] = x[0, 1, 4] = float("nan")
    tolerance = {"rtol": 1e-2, "atol": 1e-2} if dtype is torch.bfloat16 else {}

    def function(x):
        made = POSITIONS[name](x)
        return (made.values, made.indices) if isinstance(made, tuple) else made

    with torch.no_grad():
        want = function(x)
        found = torch.compile(function, backend="epifuse", options={"producers": "eager"})(x)
    for a, b in zip(*(one if isinstance(one, tuple) else (one,) for one in (found, want))):
        torch.testing.assert_close(a, b, equal_nan=True, **tolerance)
    report = epifuse.reports()[-1]
    assert len(report.kernels) == 1 and not report.left, report


def test_extents_that_are_equal_by_chance_fuse_nothing_that_others_could_not():
    """A transposed result has the shape of the others where the first and the last extent are equal."""

    def function(d):
        value = torch.log1p(d)
        return torch.minimum(d, value), value.bool().transpose(0, -1).contiguous()

    run = torch.compile(function, backend="epifuse", options={"producers": "eager"})
    for shape in ((2, 7, 2), (6, 3, 8)):
        d = torch.rand(shape)
        for i in range(d.dim()):
            torch._dynamo.maybe_mark_dynamic(d, i)
        with torch.no_grad():
            check(run(d), function(d))
    assert epifuse.reports()[-1].kernels
