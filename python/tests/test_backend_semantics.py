"""torch.compile(backend="epifuse"): types, aliases and layouts of a graph's values are eager PyTorch's."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402

import epifuse  # noqa: E402
from graphs.compare import aliases, compiled, difference  # noqa: E402

HALVES = [torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def check(function, *inputs, kernels=None, options=None, dynamic=None):
    """Compiled as eager; gives the results of both and the last report. `kernels`: how many there must be."""
    with torch.no_grad():
        want = function(*inputs)
        found = torch.compile(function, backend="epifuse", options=options or {"producers": "eager"}, dynamic=dynamic)(
            *inputs
        )
    want, found = (list(one) if isinstance(one, tuple) else [one] for one in (want, found))
    for a, b in zip(want, found):
        assert difference(b, a) == ""
        if a.dtype is torch.float64:
            torch.testing.assert_close(b, a, rtol=1e-12, atol=1e-12, equal_nan=True)
    assert aliases(found, list(inputs)) == aliases(want, list(inputs))
    report = epifuse.reports()[-1]
    assert report.fallback == "" and kernels in (None, len(report.kernels)), report
    return found, report


def masks():
    return torch.full((4, 8), 3.0), torch.rand(4, 8) > 0.3, torch.rand(4, 8) > 0.3


@pytest.mark.parametrize(
    "function",
    [
        lambda x, a, b: x * (a + b),
        lambda x, a, b: x * (a * b) + a,
        lambda x, a, b: x * a.masked_fill(b, True),
        lambda x, a, b: x * a.masked_fill(b, 5),
        lambda x, a, b: x + torch.where(a, b, True) * (a + b),
        lambda x, a, b: x * torch.maximum(a, b) - torch.minimum(a, b) * x,
        lambda x, a, b: x * (a + b).amax(1, keepdim=True) + x * (a * b).all(1, keepdim=True),
        lambda x, a, b: x * torch.add(a, b, alpha=True),
        lambda x, a, b: (x > 0).add(a).to(torch.float32).neg() + x,
    ],
    ids=range(9),
)
def test_arithmetic_of_masks_is_logic(function):
    _, report = check(function, *masks())
    assert report.kernels and not report.left


def test_numbers_that_are_tensors_have_their_type():
    check(lambda x: x * torch.full((), 3.7, dtype=torch.int32), torch.ones(5), kernels=1)
    check(lambda x: x * torch.scalar_tensor(2.9, dtype=torch.int64) + 1, torch.ones(5), kernels=1)
    check(lambda x: x + torch.scalar_tensor(0.1, dtype=torch.float16), torch.ones(5), kernels=1)


def test_f64_is_computed_in_f64():
    """A constant, the default type, a conversion: where ATen computes in f64 the chain does."""
    x = torch.tensor(1.25)
    check(lambda x: torch.sin(x * torch.tensor(0.1, dtype=torch.float64)), x, kernels=1)
    check(lambda x: torch.exp(x.double() / 3).sum(-1), torch.randn(4, 8), kernels=1)
    check(lambda x: (x * 0.1).double() / 3, torch.randn(4, 8), kernels=1)  # the product is rounded to f32 before
    check(lambda x, y: (x * 0.1 >= 0.1) * y, torch.ones(4), torch.ones(4).double(), kernels=1)
    torch.set_default_dtype(torch.float64)
    try:
        check(lambda i: torch.sin(i / 3), torch.arange(10), kernels=1)
        check(lambda m: torch.sigmoid(m), torch.arange(10) > 3, kernels=1)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_numbers_beside_16_bits_are_rounded_where_pytorch_rounds_them(dtype):
    x = torch.full((4, 8), 0.1, dtype=dtype)
    for compare in (torch.ge, torch.gt, torch.le, torch.lt, torch.eq, torch.ne):
        check(lambda x: compare(x, 0.1) * x, x, kernels=1)
    check(lambda x: x.clamp(min=0.1) == x, x, kernels=1)
    check(lambda x: torch.remainder(x * 10, 0.1), x, kernels=1)
    check(lambda x: x.pow(1.7) * 3, torch.full((4,), 3000.0, dtype=dtype), kernels=1)
    check(lambda x: F.hardshrink(x, 0.1), x)
    check(lambda x: F.threshold(x, 0.1, 7.0), x)
    # What a kernel computes before the comparison has more bits than PyTorch's.
    check(lambda x: (x * 3 == 0.3) * 2.5, x, kernels=1)
    check(lambda x: torch.floor(x * 30), x, kernels=1)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_conversions_round_what_16_bits_hold(dtype):
    x = torch.rand(4, 8).to(dtype)
    check(lambda x: (x * 0.37).float() * 2, x, kernels=1)
    check(lambda x, y: x * 0.37 + y, x, torch.rand(4, 8), kernels=1)
    check(lambda y: y.to(dtype).float() * 2, torch.rand(4, 8), kernels=1)
    check(lambda x, i: x * i, x, torch.randint(-4000, 4000, (4, 8)), kernels=1)


def test_quotients_are_cut_off_as_pytorch_does():
    x, y = torch.tensor([1.0, -1.0, 7.5, 3e-5]), torch.tensor([0.1, 0.1, -2.5, 1e-5])
    for mode in (None, "floor", "trunc"):
        check(lambda x, y: torch.div(x, y, rounding_mode=mode) + x, x, y)


def test_integers_are_compared_as_integers():
    i = torch.tensor([2**24, 2**24 + 1, 5])
    check(lambda i: (i == 2**24) * 1.5, i)
    u = torch.tensor([0, 44, 255], dtype=torch.uint8)
    check(lambda u, i: (u < 44) * 2.5 + (u > i), u, torch.tensor([-1, 44, 100], dtype=torch.int8))


INTEGERS = torch.tensor([-(2**62), -(2**24) - 1, -100, -1, 0, 3, 2**24 + 1, 2**53 + 1])
SMALL = torch.arange(-128, 128).to(torch.int8).view(16, 16)
WHOLE = {  # functions of integers that are kernels, all of them
    "comparison": lambda i, n, m, x: i != -100,
    "count": lambda i, n, m, x: ((i != -100) & (i < 5)).sum(),
    "bounds": lambda i, n, m, x: i.clamp(0, 7) + 1,
    "mask": lambda i, n, m, x: (1 - m.long()) * -10000.0,
    "mask of integers": lambda i, n, m, x: m.int() * 3 - 1,
    "choice": lambda i, n, m, x: torch.where(m, 2, -1),
    "sum of a mask": lambda i, n, m, x: m.sum(-1),
    "products": lambda i, n, m, x: n.int() * n.int() + 2,
    "quotient": lambda i, n, m, x: n.int() * n / (n.int().abs() + 1.5),
    "remainder": lambda i, n, m, x: n.long() % 7,
    "truncation": lambda i, n, m, x: (x * 100).clamp(-1000, 1000).to(torch.int32) + 1,
    "quantized": lambda i, n, m, x: (x * 100).round().clamp(-128, 127).to(torch.int8),
    "and back": lambda i, n, m, x: (x * 100).clamp(0, 255).to(torch.uint8).float() / 3,
    "extremes": lambda i, n, m, x: n.long().amax(0) - n.int().amin(0),
}


@pytest.mark.parametrize("function", WHOLE.values(), ids=WHOLE)
def test_integers_that_a_chain_holds_exactly(function):
    given = INTEGERS, SMALL, SMALL > 5, torch.randn(16, 16)
    _, report = check(function, *given)
    assert report.kernels and not report.left, report


BEYOND = {  # what wraps around, what f32 or f64 rounds, what is undefined
    "sum": lambda i, n, x: i + 1,
    "difference": lambda i, n, x: n - 1,
    "product": lambda i, n, x: n * n,
    "negative": lambda i, n, x: -n,
    "conversion": lambda i, n, x: i.to(torch.int32).clamp(0, 3),
    "truncation": lambda i, n, x: (x * 9).to(torch.int32),
    "small type": lambda i, n, x: (x.abs() * 9).clamp(0, 300).to(torch.int8),
    "large numbers": lambda i, n, x: (x * 9).clamp(0, 2**25).to(torch.int32),
    "large": lambda i, n, x: i.clamp(0, 2**25),
    "equal": lambda i, n, x: i == 2**24 + 1,
    "one another": lambda i, n, x: i.clamp(0, 2**26) < i,
    "powers": lambda i, n, x: n.long() ** 5,
    "products": lambda i, n, x: n.long().prod(),
    "sums of products": lambda i, n, x: (n.long() * n * n * n).sum(),
}


@pytest.mark.parametrize("function", BEYOND.values(), ids=BEYOND)
def test_integers_that_it_need_not_hold_stay_pytorchs(function):
    _, report = check(function, INTEGERS, SMALL, torch.randn(16, 16))
    assert report.left


def test_integers_beside_floats_leave_the_kernel_in_f32():
    """Integers of f64 would make all of it f64: they get a kernel of their own."""

    def function(i, x):
        bounded = i.clamp(0, 7) + 1
        return bounded, bounded * x

    _, report = check(function, INTEGERS, torch.randn(8))
    assert report.fused == [["clamp", "add"], ["mul"]] and not report.left


def test_under_dynamic_shapes_counts_are_pytorchs():
    """Nobody knows how much a sum of unknown extents may be."""
    _, report = check(lambda m, x: (m.sum(), x * m), torch.rand(4, 8) > 0.5, torch.randn(4, 8), dynamic=True)
    assert {name for name, _ in report.left} == {"sum"}


def test_integers_divide_to_a_float_under_dynamic_shapes():
    """PyTorch 2.7 says there that the quotient is of integers: what clamp and maximum made of it was, too."""
    a, b = torch.tensor([[7, 0, 9]], dtype=torch.uint8), torch.tensor([[2, 4, 255]], dtype=torch.uint8)
    for function in (lambda a, b: torch.clamp(a / b, 1, 5), lambda a, b: torch.clamp_min(a / 3, 1), torch.div):
        check(function, a, b, kernels=1, dynamic=True)


FLOAT8 = {torch.float8_e4m3fn: 448, torch.float8_e5m2: 57344}
ODD = torch.tensor([0.0, -0.0, 464, 480, 1e9, torch.inf, torch.nan])
WIDE = torch.cat([torch.linspace(-500, 500, 4001), torch.linspace(-0.1, 0.1, 4001), ODD])


@pytest.mark.parametrize("before", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_conversions_to_float8(dtype, before):
    most, x = FLOAT8[dtype], WIDE.to(before)
    (found,), report = check(lambda x: (x * 1.5).clamp(-most, most).to(dtype), x, kernels=1)
    assert found.dtype is dtype and not report.left
    check(lambda x: (x * 1.5).clamp(-most, most).to(dtype).to(before) * 3, x, kernels=1)  # there and back
    check(lambda y: y.to(before) * 0.5 + y.float(), x.clamp(-most, most).to(dtype), kernels=1)


def test_what_float8_does_not_hold():
    """For float8_e4m3fn it is NaN or the largest number, as the release of PyTorch has it. For float8_e5m2 it is infinity,
    where a kernel saturates."""
    check(lambda x: (x * 1.5).to(torch.float8_e4m3fn), WIDE, kernels=1)
    _, report = check(lambda x: (x * 1.5).to(torch.float8_e5m2), WIDE)
    assert [why for name, why in report.left if "clamp it to 57344" in why]


IN_FRONT = [(torch.bfloat16, torch.float32), (torch.float16, torch.float32), (torch.int8, torch.float16)]


@pytest.mark.parametrize("before, after", IN_FRONT)
def test_a_conversion_in_front_joins_the_kernel(before, after):
    x = (torch.randn(4, 8) * 5).to(before)
    _, report = check(lambda x: torch.softmax(x.to(after), -1).to(torch.bfloat16), x, kernels=1)
    assert report.fused[0][0] == "_to_copy" and not report.left


def test_a_view_of_other_bits_is_no_view_of_a_chain():
    check(lambda x: (x.view(torch.int32).view(torch.float32) * 2, torch.relu(x).view(torch.int32)), torch.randn(4, 8))


def aliasing(x):
    y = torch.relu(x) + 1
    seen = y.view(-1)
    return y, seen, seen * 2, y.detach(), seen.unsqueeze(0)


def test_results_that_alias_each_other_do():
    found, report = check(aliasing, torch.randn(4, 8), kernels=1)
    found[0].fill_(7)
    assert found[1].eq(7).all() and found[3].eq(7).all() and not found[2].eq(7).any()


@pytest.mark.parametrize("producers", ["eager", "inductor"])
@pytest.mark.parametrize(
    "function",
    [
        aliasing,
        lambda x: (torch.tanh(x).t().contiguous(), torch.tanh(x).t()),
        lambda x: torch.tanh(x.t()).contiguous() + 1,
        lambda x: (x.t() * 2).contiguous().view(-1) + 1,
        lambda x: torch.sigmoid(x.t()).clone(memory_format=torch.contiguous_format),
        lambda x: (torch.sigmoid(x.t()).contiguous(), (x.t() + 1).unsqueeze(0).contiguous()),
        lambda x: torch.relu(x).t().to(torch.float64, memory_format=torch.contiguous_format) * 2,
    ],
    ids=range(7),
)
def test_results_lie_as_eager_pytorchs(function, producers):
    check(function, torch.randn(4, 8), options={"producers": producers})


LIE_OTHERWISE = {  # than their fake tensors, of a transposed matrix and a row or so
    "copysign": torch.copysign,
    "floor_divide": torch.floor_divide,
    "div floor": lambda x, v: torch.div(x, v, rounding_mode="floor"),
    "heaviside": lambda x, v: torch.heaviside(v, x),
    "ldexp": lambda x, v: torch.ldexp(v, x),
    "logaddexp": lambda x, v: torch.logaddexp(v, x),
    "logical_and": lambda x, v: torch.logical_and(v, x),
    "logical_xor": lambda x, v: torch.logical_xor(v, x),
    "xlogy": lambda x, v: torch.xlogy(x, v.expand(7, 4).contiguous()),
    "xlog1py": lambda x, v: torch.special.xlog1py(v.expand(7, 4).contiguous(), x),
    "pow": lambda x, v: 2**x,
    "logsigmoid": lambda x, v: F.logsigmoid(x),
    "batch_norm": lambda x, v: F.batch_norm(x, v, v * v + 1),
}


def with_views(function):
    """What depends on how a result lies: views of what is computed of it, and what as_strided reads."""

    def several(x, v):
        made = function(x, v)
        computed = torch.sin(made)
        return made, computed, computed.diagonal(), computed.as_strided((20,), (1,)) + 1

    return several


@pytest.mark.parametrize("function", LIE_OTHERWISE.values(), ids=LIE_OTHERWISE)
def test_results_lie_as_pytorchs_kernels_write_them(function):
    inputs = torch.randn(4, 7).t(), torch.randn(4)
    with torch.no_grad():
        want, found = with_views(function)(*inputs), compiled(with_views(function))(*inputs)
    assert [difference(*pair) for pair in zip(found, want)] == [""] * 4
    assert aliases(list(found), list(inputs)) == aliases(list(want), list(inputs))


@pytest.mark.parametrize("name", ["copysign", "xlogy", "batch_norm"])
def test_results_of_unknown_extents_lie_so(name):
    check(with_views(LIE_OTHERWISE[name]), torch.randn(4, 7).t(), torch.randn(4), dynamic=True)


def test_a_view_that_fake_tensors_allow():
    """Program 3374 of graphs/programs.py: PyTorch's own trace ends in an error."""

    def function(b, a):
        sine = torch.sin(torch.floor_divide(b, a))
        norm = F.rms_norm(sine, sine.shape[-1:])
        norm.view(-1)[1:].add_(-1.5)
        return sine.diagonal(), norm

    if not F.rms_norm(torch.ones(4, 7).t(), (4,)).is_contiguous():
        pytest.skip("this PyTorch has no view of such a norm")
    check(function, (torch.rand(4, 7) > 0.5).t(), torch.randn(4).double())


def test_a_contiguous_image_behind_a_channels_last_convolution_is_contiguous():
    weight = torch.randn(8, 4, 3, 3)

    def function(x):
        image = torch.relu(F.conv2d(x, weight)).contiguous()
        return image.flatten(1).sum(1), image.as_strided((5,), (1,))

    for channels_last in (False, True):
        check(function, torch.randn(2, 4, 6, 6), options={"producers": "eager", "channels_last": channels_last})


def test_empty_tensors_are_left_to_pytorch():
    check(lambda x: torch.tanh(x).view(8, 0) + x, torch.zeros(8, 0), kernels=0)
    check(lambda x: (x.sum(1), x.softmax(0)), torch.zeros(4, 0), kernels=0)


def test_statistics_of_everything_beside_expressions_of_one_element():
    check(lambda x, s: F.log_softmax(x / s.exp(), -1).mean() * s.exp(), torch.randn(4, 8), torch.tensor(0.3))


def test_roots_and_norms_are_pytorchs():
    x = torch.tensor([[-float("inf"), float("inf"), 4.0], [0.25, 0.0, -0.0]])
    check(lambda x: (x**0.5, x**-0.5), x, kernels=2)
    check(lambda x: torch.linalg.vector_norm(x, dim=-1), torch.randn(5, 1))  # PyTorch's parts keep the dimension
    check(lambda x: torch.linalg.vector_norm(x, 3, dim=(0, 1), keepdim=True) * 2, torch.randn(5, 7), kernels=1)


def test_parts_that_pytorch_refuses_to_take_apart_stay_whole():
    """Its addcmul takes a number that its decomposition refuses."""
    i = torch.tensor([1, 2, 3])
    _, report = check(lambda i: torch.addcmul(i, i > 1, i, value=2.5), i, kernels=1)
    assert report.fused == [["gt"]] and {name for name, _ in report.left} == {"addcmul"}
    check(lambda x: torch.addcmul(x, x > 1, x, value=2.5), torch.randn(5), kernels=1)
