"""torch.compile(backend="epifuse") on the CPU device: tails are written over an operand that nobody needs any more, and
nothing else ever is."""

import random
import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402

import epifuse  # noqa: E402
import level2  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


OVER = "torch.ops.epifuse.launch_over.default("


def launches(code):
    """Of kernels with new results, in Inductor's code."""
    return code.count("torch.ops.epifuse.launch.default(")


def checked(model, *inputs, dynamic=None, options=None, tolerance=1e-4):
    """Compiles; two calls must give what eager gives and leave inputs and parameters as they were, bit for bit. Returns
    the compiled model and Inductor's code."""
    tensors = [*inputs, *(model.parameters() if isinstance(model, nn.Module) else ())]
    kept = [one.detach().clone() for one in tensors]
    with torch.no_grad(), torch._inductor.config.patch(fx_graph_cache=False):
        want = model(*inputs)
        run = torch.compile(model, backend="epifuse", dynamic=dynamic, options=options)
        found, (code,) = run_and_get_code(run, *inputs)
        again = run(*inputs)
    torch.testing.assert_close(found, want, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(again, found, rtol=0, atol=0)
    assert all(torch.equal(one, before) for one, before in zip(tensors, kept))
    return run, code


def load(number):
    names = {}
    exec(level2.text(number, small=True), names)
    return names["Model"](*names["get_init_inputs"]()).eval(), names["get_inputs"]()


def conv(x):
    """A producer whose result lies as the caller's tensors do."""
    return F.conv3d(x, torch.ones(4, 4, 1, 1, 1))


def volume(*shape):
    return torch.randn(*(shape or (2, 4, 3, 5, 6)))


@pytest.mark.parametrize("number", [7, 49, 9, 59])
def test_what_a_convolution_or_product_made_is_written_over(number):
    model, inputs = load(number)
    _, code = checked(model, *inputs)
    producer = re.findall(r"(\w+) = extern_kernels.convolution\(|out=(\w+)\)", code)[-1]
    name = producer[0] or producer[1]
    assert f"{OVER}{name}, " in code and f"return ({name}, )" in code
    assert not launches(code)


def test_nothing_is_written_over_where_the_user_says_so():
    """The switch is Inductor's own."""
    model, inputs = load(7)
    with torch._inductor.config.patch(inplace_buffers=False):
        _, code = checked(model, *inputs)
    assert OVER not in code and launches(code)


def test_an_operand_behind_others_is_written_over():
    _, code = checked(lambda x, y: torch.where(y > 0, y * 3, conv(x)).relu() + 1, volume(), volume())
    (line,) = [line for line in code.splitlines() if OVER in line]
    assert "'relu(where(x0 > 0, x0 * 3, x1)) + 1'" in line and line.endswith(", 1, '')")


def test_one_tail_is_written_over_another():
    """A cut between two kernels: the second takes the memory of the first, which took the convolution's. Places of
    maxima are PyTorch's, and so is the pool that gives them."""

    def pool(x):
        largest, places = F.max_pool3d(torch.softmax(conv(x) + 1, 1), 5, 1, 2, return_indices=True)
        return largest.sigmoid() * 2, places

    _, code = checked(pool, volume())
    assert code.count(OVER) == 2
    _, code = checked(lambda x: torch.softmax(torch.softmax(conv(x), 1), 2) + 1, volume())
    assert len(epifuse.reports()[-1].kernels) == 2 and len(set(re.findall(rf"{re.escape(OVER)}(\w+),", code))) == 1


def test_windows_that_overlap_are_not_written_over():
    """An element is read for several results: the first kernel is written over the convolution's memory, the second is
    not."""
    _, code = checked(lambda x: F.max_pool3d(torch.softmax(conv(x) + 1, 1), 5, 1, 2).sigmoid() * 2, volume())
    assert len(epifuse.reports()[-1].kernels) == 2 and code.count(OVER) == 1


@pytest.mark.parametrize(
    "function",
    {
        "used again": lambda x: (lambda c: (c.relu() + 1, F.avg_pool3d(c, 2)))(conv(x)),
        "given out": lambda x: (lambda c: (c.relu() + 1, c))(conv(x)),
        "a view given out": lambda x: (lambda c: (c.relu() + 1, c.transpose(1, 2)))(conv(x)),
        "a view used": lambda x: (lambda c: (c.relu() + 1, F.avg_pool3d(c[:, 1:], 2)))(conv(x)),
        "an input": lambda x: x.relu() + 1,
        "another type": lambda x: (conv(x).relu() + 1).double(),
        "another shape": lambda x: conv(x).amax(2),
        "another order": lambda x: torch.cumsum(x, 0).transpose(1, 2).relu().contiguous() + 1,
        "broadcast": lambda x: torch.cumsum(x[:1], 1) * x,
        "two results": lambda x: (lambda t: (t * 2, t.exp()))(conv(x) + 1),
        "a vector that other rows read": lambda x: (
            torch.ones(6, 6) * x.flatten()[:36].view(6, 6) * torch.cumsum(x[0, 0, 0, 0], 0)
        ).sum(1),
    }.items(),
    ids=lambda item: item[0],
)
def test_what_is_needed_is_not_written_over(function):
    _, code = checked(function[1], volume())
    assert launches(code) and OVER not in code


@pytest.mark.parametrize(
    "function, over",
    [
        (lambda x, m: torch.softmax(conv(x), 1) + 1, "_over_0"),
        (lambda x, m: (m @ m.t()).relu() - m, "_over_0"),
        (lambda x, m: torch.where(m > 0, m, torch.addmm(m, m, m)) + 1, "_over_1"),
        (lambda x, m: (lambda c: (c.relu() + 1, c))(conv(x)), ""),
        (lambda x, m: (lambda c: (c.relu() + 1, c[:, 1:]))(conv(x)), ""),
        (lambda x, m: (lambda c: (c.relu() + 1, F.avg_pool3d(c, 2)))(conv(x)), ""),
        (lambda x, m: (lambda t: (t * 2, t.exp()))(conv(x) + 1), ""),
        (lambda x, m: torch.cumsum(m, 0).relu() + 1, ""),
        (lambda x, m: (conv(x) + 1).transpose(1, 2).contiguous() * 2, None),
        (lambda x, m: (m @ m).relu().double() + 1, ""),
        (lambda x, m: (torch.stack([m, m]) * (m @ m)[:1].clone().relu()).sum(0), None),
    ],
    ids=range(11),
)
def test_eager_producers_are_written_over_too(function, over):
    """`over`: how the name of the kernel that writes over an operand ends; None where it matters only what is right."""
    x, m = volume(), torch.randn(6, 6)
    kept = x.clone(), m.clone()
    with torch.no_grad():
        run = torch.compile(function, backend="epifuse", options={"producers": "eager"})
        for _ in range(2):
            torch.testing.assert_close(run(x, m), function(x, m), rtol=1e-5, atol=1e-5)
    assert torch.equal(x, kept[0]) and torch.equal(m, kept[1])
    report = epifuse.reports()[-1]
    assert report.kernels and (over is None or set(re.findall(r"_over_\d", report.text)) == ({over} - {""}))


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_result_in_another_order_has_memory_of_its_own(channels_last):
    """The convolution's result lies channels-last, and the caller's contiguous: unless it takes any."""
    model, inputs = load(1)
    _, code = checked(model, *inputs, options={"channels_last": channels_last})
    assert (OVER in code) == channels_last


@pytest.mark.parametrize(
    "nothing",
    [
        lambda x: x.clone(),
        lambda x: x + 0,
        lambda x: (x * 1).contiguous(),
        lambda x: F.pad(x, (0, 0)),
        lambda x: torch.cat([x]),
        lambda x: x.repeat(1, 1, 1, 1, 1),
        lambda x: x.expand_as(x).reshape(x.shape),
        lambda x: F.dropout(x, 0.5, False),
        lambda x: torch.ops.aten._unsafe_view(x, x.shape),
        lambda x: torch.ops.aten.unsafe_split(x, 2, 0)[0],
        lambda x: torch.flip(torch.flip(x, [0]), [0]),
        lambda x: x.to(torch.float32).to(x.device),
    ],
    ids=range(12),
)
@pytest.mark.parametrize("owned", [False, True], ids=["input", "kept"])
def test_what_does_nothing_hides_no_memory(nothing, owned):
    """Of an input, or of a tensor that is used again."""

    def function(x):
        a = conv(x) if owned else x
        b = nothing(a)
        c = torch.softmax(b.sigmoid() + 1, 1)
        return c, F.avg_pool3d(a, 2), a

    checked(function, volume())


def whole(x):
    """The tensor itself, by another name: Inductor gives the part that is all of it the same memory."""
    return torch.ops.aten.unsafe_split(x, x.shape[0], 0)[0]


def test_reads_that_are_put_off_see_the_old_values():
    """Inductor computes the flip where the results are joined, after the tail: by then no node holds `a` any more."""

    def function(x):
        a = conv(x)
        flipped = torch.flip(a, [0])
        where = torch.argmax(flipped).float()
        return torch.cat([flipped, whole(a).relu() + where])

    _, code = checked(function, volume())
    assert launches(code) and OVER not in code


def test_two_names_of_one_tensor_are_two_operands():
    def function(x):
        a = conv(x)
        return whole(a).relu() + whole(a).transpose(3, 4)

    _, code = checked(function, volume(2, 4, 3, 5, 5))
    assert launches(code) and OVER not in code


def test_dynamic_shapes():
    model, inputs = load(7)
    run, code = checked(model, *inputs, dynamic=True)
    assert OVER in code
    x = inputs[0]
    with torch.no_grad():
        for shape in ((3, *x.shape[1:]), (1, x.shape[1], 8, 7, 12)):
            x = torch.randn(shape)
            kept = x.clone()
            torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
            assert torch.equal(x, kept)


def test_the_operator_writes_and_refuses_what_the_launch_refuses():
    over, bias = torch.randn(3, 4), torch.randn(4)
    want = (over - bias).relu()
    assert torch.ops.epifuse.launch_over(over, [bias], [], "relu(x0 - x1)", ":", 0) is None
    torch.testing.assert_close(over, want)
    other = torch.randn(3, 4)
    want = other - over
    torch.ops.epifuse.launch_over(over, [other], [], "x0 - x1", ":", 1)
    torch.testing.assert_close(over, want)
    memory = torch.randn(13)
    with pytest.raises(ValueError, match="overlaps operand"):
        torch.ops.epifuse.launch_over(memory[:12], [memory[1:]], [], "x0 - x1", ":", 0)


class Drawn(nn.Module):
    """A graph drawn by a seed: producers, tails, views, copies and several results."""

    def __init__(self, seed):
        super().__init__()
        draw = random.Random(seed)
        channels = self.channels = draw.choice([1, 3, 4, 8])
        self.bias = nn.Parameter(torch.randn(channels, 1, 1))
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=draw.random() < 0.5)
        self.linear = nn.Linear(6, 6)
        self.norm = nn.GroupNorm(1, channels)
        steps = (
            *4 * [lambda a, b: self.conv(a)],
            *2 * [lambda a, b: self.linear(a)],
            lambda a, b: torch.relu(a + self.bias),
            lambda a, b: torch.sigmoid(a) * b,
            lambda a, b: self.norm(a),
            lambda a, b: F.softmax(a, 1),
            lambda a, b: a - a.mean((2, 3), keepdim=True),
            lambda a, b: F.max_pool2d(a, 3, 1, 1),
            lambda a, b: F.avg_pool2d(a, 3, 1, 1),
            lambda a, b: a.clone(),
            lambda a, b: a.transpose(2, 3),
            lambda a, b: a.contiguous(memory_format=torch.channels_last),
            lambda a, b: a.reshape(a.shape[0], -1).view(a.shape),
            lambda a, b: torch.matmul(a, b.transpose(2, 3)),
            lambda a, b: torch.cat([a, b], 1)[:, : a.shape[1]],
            lambda a, b: torch.flip(a, [2]),
        )
        self.plan = [
            (draw.choice(steps), i + 1 if draw.random() < 0.6 else draw.randint(0, i + 1), draw.randint(0, i + 1))
            for i in range(draw.randint(6, 14))
        ]
        self.given_out = [i + 2 for i in range(len(self.plan)) if draw.random() < 0.15]

    def forward(self, x, y):
        values = [x, y]
        for step, first, second in self.plan:
            values.append(step(values[first], values[second]))
        given_out = [values[i] for i in self.given_out]
        return (values[-1], *given_out, *(one.transpose(1, 2) for one in given_out[1:]))


@pytest.mark.parametrize("seed", range(8))
def test_drawn_graphs(seed):
    torch.manual_seed(seed)
    model = Drawn(seed).eval()
    checked(model, *(torch.randn(2, model.channels, 6, 6) for _ in range(2)), tolerance=1e-3)
