"""The types that results have by default are those of eager PyTorch: every operation of the tables over every pair of types, with and
without dimensions, with Python's numbers; and random programs of them. PyTorch itself, on the CPU, says what is right."""

import collections
import itertools
import random
import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402
from conftest import ROOT  # noqa: E402
from tails import as_written  # noqa: E402

import epifuse  # noqa: E402
from epifuse._arrays import NAMES  # noqa: E402
from epifuse._core import Launcher  # noqa: E402

_OURS = {getattr(torch, theirs): ours for ours, theirs in NAMES.items()}
TYPES = [one for one in NAMES if not one.startswith("f8")]  # PyTorch has no promotion for float8

ONE = {
    name: getattr(torch, name)
    for name in "neg abs sign square sqrt rsqrt reciprocal floor ceil round trunc exp exp2 expm1 log log1p log2 sin cos "
    "tanh erf logical_not isnan isinf relu sigmoid".split()
}
ONE |= {
    name: getattr(F, name)
    for name in "relu6 leaky_relu elu selu celu gelu silu logsigmoid hardsigmoid hardswish hardtanh mish softplus "
    "softsign tanhshrink".split()
}
ONE["gelu_tanh"] = lambda x: F.gelu(x, approximate="tanh")
TWO = {name: getattr(torch, name) for name in "add sub mul div pow fmod remainder minimum maximum".split()}
TWO |= {name: getattr(torch, name) for name in "eq ne lt le gt ge logical_and logical_or logical_xor".split()}
NUMBERS = "add sub mul div pow fmod remainder eq ne lt le gt ge".split()  # these take Python's numbers
MORE = {"where": torch.where, "clamp": torch.clamp, "threshold": F.threshold}
MORE["fma"] = lambda x, y, z: torch.true_divide(x * y + z, 1)
REDUCTIONS = {name: getattr(torch, name) for name in "sum mean prod amax amin var any all std logsumexp".split()}

TEXT = {"gelu_tanh": "gelu({}, approximate='tanh')", "logsumexp": "logsumexp({}, 0)"}
REDUCTIONS["logsumexp"] = lambda x: torch.logsumexp(x, 0)

# Where we say otherwise, (operation, PyTorch's type): ours. PyTorch keeps uint8 here for history's sake.
OTHERWISE = {("any", torch.uint8): "bool", ("all", torch.uint8): "bool"}


def ours(name, dtype):
    return OTHERWISE.get((name, dtype)) or _OURS[dtype]


def spelled(number):
    return {True: "true", False: "false"}[number] if isinstance(number, bool) else repr(number)


def default_types(text, operands):
    return Launcher(text).result_types([one for one, _ in operands], [rank for _, rank in operands])


def tensor(dtype, rank):
    return torch.ones((2,) * rank).to(getattr(torch, NAMES[dtype]))


def check(name, text, operands, eager):
    """Whether eager PyTorch has such an operation; if it has, its type is ours."""
    try:
        expected = eager(*(tensor(dtype, rank) for dtype, rank in operands)).dtype
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return False
    assert default_types(text, operands) == [ours(name, expected)], f"{text} of {operands}: PyTorch gives {expected}"
    return True


OPERANDS = list(itertools.product(TYPES, (1, 0)))


def test_every_operation_is_tried():
    rows = (ROOT / "src/ir/ops.def").read_text() + (ROOT / "src/ir/reductions.def").read_text()
    names = set(re.findall(r"^EPIFUSE_(?:OP|REDUCTION)\((\w+),", rows, re.M))
    assert len(names) > 60 and names == {*ONE, *TWO, *MORE, *REDUCTIONS} - {"std", "logsumexp"}


@pytest.mark.parametrize("name", sorted({**ONE, **REDUCTIONS}))
def test_of_one_operand(name):
    eager = {**ONE, **REDUCTIONS}[name]
    tried = [check(name, TEXT.get(name, name + "({})").format("x"), [one], eager) for one in OPERANDS]
    assert sum(tried) >= 6


@pytest.mark.parametrize("name", sorted(TWO))
def test_of_two_operands_and_numbers(name):
    pairs = [check(name, f"{name}(x, y)", [a, b], TWO[name]) for a, b in itertools.product(OPERANDS, OPERANDS)]
    assert sum(pairs) >= 250
    if name not in NUMBERS:
        return
    tried = []
    for operand, number in itertools.product(OPERANDS, (2, 2.0, 0.5, True, 1, 1.0, 0)):
        tried.append(check(name, f"{name}(x, {spelled(number)})", [operand], lambda x: TWO[name](x, number)))
    assert sum(tried) >= 90


def test_of_more_operands():
    tried = collections.Counter()
    for a, b in itertools.product(OPERANDS, OPERANDS):
        tried["where"] += check("where", "where(c, x, y)", [("bool", 1), a, b], torch.where)
        tried["clamp"] += check("clamp", "clamp(x, min=y)", [a, b], lambda x, y: torch.clamp(x, min=y))
        tried["fma"] += check("fma", "fma(x, y, x)", [a, b], lambda x, y: MORE["fma"](x, y, x))
        tried["both"] += check("clamp", "clamp(x, y, y)", [a, b], lambda x, y: torch.clamp(x, y, y))
    for operand, number in itertools.product(OPERANDS, (2, 0.5)):
        tried["clamp"] += check("clamp", f"clamp(x, {number})", [operand], lambda x: torch.clamp(x, number))
        tried["max"] += check("clamp", f"clamp(x, max={number})", [operand], lambda x: torch.clamp(x, max=number))
        text = f"where(x > 0, x, {number})"
        tried["where"] += check("where", text, [operand], lambda x: torch.where(x > 0, x, number))
        text = f"threshold(x, {number}, {number})"
        tried["threshold"] += check("threshold", text, [operand], lambda x: F.threshold(x, number, number))
        text = f"hardtanh(x, {-number}, {number})"
        tried["hardtanh"] += check("hardtanh", text, [operand], lambda x: F.hardtanh(x, -number, number))
    assert all(count >= 20 for count in tried.values()), tried


@pytest.mark.parametrize("dtype", TYPES)
def test_casts_decide(dtype):
    for operand, before in itertools.product(OPERANDS, ("x", "x + 1", "x > 0")):
        assert default_types(f"cast({before}, {dtype})", [operand]) == [dtype]


class Program:
    """A random program, as text and as what eager PyTorch makes of it."""

    def __init__(self, generator):
        self.random, self.lines = generator, []
        self.operands = [(generator.choice(TYPES), generator.choice((0, 1, 2, 2))) for _ in range(generator.randint(1, 4))]
        self.values = [(f"x{i}", tensor(*one)) for i, one in enumerate(self.operands)]

    def step(self):
        choose = self.random.choice
        (a, left), (b, right) = choose(self.values), choose(self.values)
        kind = choose(("one", "two", "two", "number", "number", "where", "clamp", "reduction", "cast"))
        if kind == "one":
            name = choose(list(ONE))
            return TEXT.get(name, name + "({})").format(a), ONE[name](left)
        if kind == "two":
            name = choose(list(TWO))
            return f"{name}({a}, {b})", TWO[name](left, right)
        number = choose((2, 3, 2.0, 0.5, 1.0, 1, True, 0))
        if kind == "number":
            name = choose(NUMBERS)
            return f"{name}({a}, {spelled(number)})", TWO[name](left, number)
        if kind == "where":
            return f"where({a} > 0, {a}, {b})", torch.where(left > 0, left, right)
        if kind == "clamp":
            return f"clamp({a}, min={spelled(number)})", torch.clamp(left, min=number)
        if kind == "cast":
            dtype = choose(TYPES)
            return f"cast({a}, {dtype})", left.to(getattr(torch, NAMES[dtype]))
        name, axis, keepdim = choose(("sum", "mean", "amax", "amin")), -1, choose((True, False))
        if left.dim() == 0:
            raise ValueError("nothing to reduce")
        if self.random.random() < 0.4:
            axis = tuple(range(left.dim()))
        text = f"{name}({a}, axis={axis}, keepdim={spelled(keepdim)})".replace(",)", ")").replace("axis=(0)", "axis=0")
        return text, getattr(torch, name)(left, axis, keepdim)

    def grow(self):
        try:
            text, value = self.step()
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return  # PyTorch has no such thing
        if value.dtype in _OURS:
            name = f"v{len(self.lines)}"
            self.lines.append(f"{name} = {text}")
            self.values.append((name, value))

    def check(self):
        results = [(name, value) for name, value in self.values if name.startswith("v")]
        if not results:
            return 0
        head = "input " + ", ".join(f"x{i}" for i in range(len(self.operands)))
        text = "; ".join([head, *self.lines, "return " + ", ".join(f"({name})" for name, _ in results)])
        expected = [_OURS[value.dtype] for _, value in results]
        assert default_types(text, self.operands) == expected, (text, self.operands)
        again = Launcher(text).text
        assert default_types(again, self.operands) == expected, ("printed", again, self.operands)
        return len(results)


def test_of_random_programs():
    checked = 0
    for seed in range(1500):
        program = Program(random.Random(seed))
        for _ in range(8):
            program.grow()
        checked += program.check()
    assert checked > 4000


# ---- what calls allocate


def test_calls_allocate_these_types():
    x, b = torch.ones(2, 3, dtype=torch.float16), torch.ones(3)
    assert as_written("x + b")(x, b).dtype == torch.float32
    assert as_written("x + b")(x, b.half()).dtype == torch.float16
    assert as_written("x + b")(x, torch.tensor(1.0)).dtype == torch.float16
    assert as_written("x + b", dtype="f16")(x, b).dtype == torch.float16
    assert as_written("x + b")(x, b, dtype="bf16").dtype == torch.bfloat16
    out = torch.empty(2, 3, dtype=torch.bfloat16)
    assert as_written("x + b")(x, b, out=out) is out
    cast, largest = epifuse.compile("s = amax(x); return cast(x / s, f8e4m3), s")(x)
    assert (cast.dtype, largest.dtype) == (torch.float8_e4m3fn, torch.float16)
    assert "write  out              f32" in as_written("x + b").source("f16[2,3]", "f32[3]")


def test_integers_stay_integers():
    n = torch.tensor([2**31 - 1, -(2**31), 16777217, 3], dtype=torch.int32)
    one = torch.ones(4, dtype=torch.int32)
    assert torch.equal(as_written("n - m")(n - one, one), n - one - one)
    wide = torch.tensor([2**53 - 1, -(2**53) + 1, 2**31, 5])
    result = epifuse.compile("n + 1")(wide)
    assert torch.equal(result, wide + 1) and result.dtype == torch.int64
    assert epifuse.compile("n * 0.5")(n).dtype == torch.float32


def test_fused_functions_give_the_types_of_eager():
    @epifuse.fuse
    def tail(x, bias, n):
        return x + bias, x > 0, n.clamp(0, 3), n * 0.5, (x + bias).half()

    given = torch.randn(4).half(), torch.randn(4), torch.tensor([1, 2, 3, 4])
    for found, eager in zip(tail(*given), tail.__wrapped__(*given)):
        assert found.dtype == eager.dtype


def test_the_fake_operator_gives_the_same_types():
    tail = as_written("return x + b, n + n, x > 0, n / 2")

    @torch.compile(fullgraph=True, backend="eager")
    def function(x, b, n):
        return tail(x, b, n)

    given = torch.randn(4).half(), torch.randn(4), torch.tensor([1, 2, 3, 4])
    types = [one.dtype for one in function(*given)]
    assert types == [torch.float32, torch.int64, torch.bool, torch.float32] == [one.dtype for one in tail(*given)]
