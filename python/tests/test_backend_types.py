"""torch.compile(backend="epifuse"): operands and results of every type that a chain has, against eager PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import epifuse  # noqa: E402
from graphs.compare import difference  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def check(function, *inputs, producers="eager"):
    """Compiled as eager; the report."""
    want = function(*inputs)
    found = torch.compile(function, backend="epifuse", options={"producers": producers})(*inputs)
    want, found = (one if isinstance(one, tuple) else (one,) for one in (want, found))
    assert [difference(b, a) for a, b in zip(want, found, strict=True)] == [""] * len(want)
    return epifuse.reports()[-1]


INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64]
OF_INTEGERS = {
    "multiplied": lambda n, x: n * x,
    "compared": lambda n, x: (n == 3).float() + x,
    "rounded to halves": lambda n, x: n.to(torch.bfloat16) * x.half(),
    "in f64": lambda n, x: n.double() / 3 + x,
    "chosen": lambda n, x: torch.where(x > 0, n, n.flip(0)),
    "kept within a type": lambda n, x: n.to(torch.float32).clamp(1, 100).to(torch.int16) * x,
    "made": lambda n, x: (x.clamp(0, 100).to(n.dtype), x * 2),
    "made of truth values": lambda n, x: ((x > 0).to(n.dtype), x + 1),
    "joined": lambda n, x: torch.cat((n, n)).float() * torch.cat((x, x)),
    "counted": lambda n, x: torch.count_nonzero(n) * x,
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers(name, dtype):
    limits = torch.iinfo(dtype)
    n = torch.tensor([limits.min, limits.max, 0, 1, 2, 3, 100, limits.max - 1], dtype=dtype)
    x = torch.tensor([0.0, 1, -1, 2.5, 1e5, -1e9, 7, 99.5])
    try:
        OF_INTEGERS[name](n, x)
    except RuntimeError:
        pytest.skip("this PyTorch does not have it")
    assert check(OF_INTEGERS[name], n, x).kernels


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_beside_inductors_code(dtype):
    n = torch.arange(32).reshape(4, 8).to(dtype)
    report = check(lambda n, w: torch.relu(w @ n.float()) * n, n, torch.randn(4, 4), producers="inductor")
    assert report.kernels


@pytest.mark.parametrize("dim", [None, 1, (0, 2), ()], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
def test_what_is_not_zero_is_counted(dtype, dim):
    x = (torch.randn(3, 4, 5) * 2).round().to(dtype)
    report = check(lambda x: (torch.count_nonzero(x, dim), torch.count_nonzero(x * 1e-6, dim)), x)
    assert report.kernels and not report.left


def test_what_may_wrap_around_stays_pytorchs():
    n = torch.tensor([2**15 - 1, -(2**15)], dtype=torch.int16)
    report = check(lambda n, x: (n + 1) * x, n, torch.ones(2))
    assert [name for name, _ in report.left] == ["add"] and report.kernels


def test_scales_that_are_exponents():
    codes = torch.arange(256, dtype=torch.uint8).reshape(32, 8)
    x = torch.randn(32, 8)
    assert not check(lambda s, x: s.float() * x, codes.view(torch.float8_e8m0fnu), x).left
    bounds = 2.0**-127, 2.0**127
    report = check(lambda x: (x * 1e3).clamp(*bounds).to(torch.float8_e8m0fnu).float() * x, x)
    assert not report.left
    report = check(lambda x: (x * 1e3).to(torch.float8_e8m0fnu).float() * x, x)
    assert ["positive numbers alone" in why for _, why in report.left] == [True]
