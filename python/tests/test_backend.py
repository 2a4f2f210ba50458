"""torch.compile(backend="epifuse") on the CPU device: the problems of KernelBench, small, and models that are hard to
cut."""

import copy
import logging
import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import epifuse  # noqa: E402
import level2  # noqa: E402

TOLERANCES = {torch.float32: dict(rtol=1e-4, atol=2e-5), torch.float16: dict(rtol=1e-2, atol=1e-2)}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(model, *inputs, dynamic=None, options=None, **tolerance):
    """The compiled model's result, checked against eager, and the report of its last graph."""
    with torch.no_grad():
        want = model(*inputs)
        run = torch.compile(model, backend="epifuse", dynamic=dynamic, options=options)
        found = run(*inputs)
    for a, b in zip(want if isinstance(want, tuple) else (want,), found if isinstance(found, tuple) else (found,)):
        torch.testing.assert_close(b, a, **(tolerance or TOLERANCES[torch.float32]))
        assert a.stride() == b.stride()
    return run, next(reversed(epifuse.reports()), None)  # none where there was nothing to compile


def load(number):
    names = {}
    exec(level2.text(number, small=True), names)
    return names["Model"](*names["get_init_inputs"]()).eval(), names["get_inputs"]()


# PyTorch's avg_pool3d, of problem 3, has no float16 on the CPU.
TAILS = [(number, dtype) for number in level2.PROBLEMS for dtype in TOLERANCES if (number, dtype) != (3, torch.float16)]


@pytest.mark.parametrize("number, dtype", TAILS, ids=str)
def test_the_tail_of_a_problem_is_one_kernel(number, dtype):
    model, inputs = load(number)
    options = {"producers": "eager"}  # Inductor's C++ compiler would take minutes
    _, report = compiled(model.to(dtype), *(one.to(dtype) for one in inputs), options=options, **TOLERANCES[dtype])
    assert len(report.kernels) == 1, report
    assert {name for name, _ in report.left} <= {"convolution", "addmm"}, report
    # The bias of a convolution joins the tail.
    assert ("bias" in report.fused[0]) == any(name == "convolution" for name, _ in report.left)


# With the least number of kernels that data dependencies allow: problem 15 takes a mean of rows behind statistics of columns.
@pytest.mark.parametrize("number, kernels", [(11, 2), (15, 2), (33, 1), (39, 1), (41, 1), (73, 1), (77, 1), (97, 1)])
def test_a_tail_with_statistics_of_the_batch(number, kernels):
    model, inputs = load(number)
    model.train()
    ours = copy.deepcopy(model)
    with torch.no_grad():
        found = torch.compile(ours, backend="epifuse", options={"producers": "eager"})(*inputs)
        torch.testing.assert_close(found, model(*inputs), **TOLERANCES[torch.float32])
    report = epifuse.reports()[-1]
    assert len(report.kernels) == kernels, report
    assert {name for name, _ in report.left} == {"convolution" if len(inputs[0].shape) > 2 else "addmm", "add"}, report
    for (name, one), (_, other) in zip(ours.named_buffers(), model.named_buffers()):
        torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("number", [1, 21, 17, 91])
def test_channels_last_outputs_are_taken_as_they_are(number):
    model, inputs = load(number)
    model, inputs = (
        model.to(memory_format=torch.channels_last),
        [one.to(memory_format=torch.channels_last) for one in inputs],
    )
    _, report = compiled(model, *inputs)
    assert len(report.kernels) == 1 and "clone" not in report.text


@pytest.mark.parametrize("number", [1, 17, 21, 5, 93, 31])
def test_eager_convolutions_channels_last_on_request(number):
    model, inputs = load(number)
    with torch.no_grad():
        options = {"channels_last": True, "producers": "eager"}
        found = torch.compile(model, backend="epifuse", options=options)(*inputs)
        torch.testing.assert_close(found, model(*inputs), **TOLERANCES[torch.float32])
    report = epifuse.reports()[-1]
    assert report.turned == 1 and len(report.kernels) == 1
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("number, turned", [(25, 1), (67, 1), (1, 0), (23, 0)])
def test_eager_convolutions_channels_last_where_no_image_leaves_the_graph(number, turned):
    model, inputs = load(number)
    options = {"producers": "eager"}
    _, report = compiled(model.half(), *(one.half() for one in inputs), options=options, **TOLERANCES[torch.float16])
    assert report.turned == turned and len(report.kernels) == 1


def test_channels_last_through_a_network():
    model = (
        nn.Sequential(
            nn.Conv2d(8, 16, 3),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 8, 3, groups=8),
            nn.Conv2d(8, 16, 1),
            nn.GroupNorm(4, 16),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(64, 5),
        )
        .eval()
        .half()
    )
    options = {"producers": "eager"}
    _, report = compiled(model, torch.randn(2, 8, 12, 12).half(), options=options, **TOLERANCES[torch.float16])
    assert report.turned == 2 and report.text.count("memory_format: torch.channels_last") <= 4


def test_dynamic_shapes_compile_one_graph():
    model, (x,) = load(31)
    run, report = compiled(model, x, dynamic=True)
    count = len(epifuse.reports())
    with torch.no_grad():
        for batch, extent in ((3, 12), (5, 20)):
            x = torch.rand(batch, x.shape[1], extent, extent)
            torch.testing.assert_close(run(x), model(x))
    assert len(epifuse.reports()) == count and len(report.kernels) == 1


class Classifier(nn.Module):
    """An image, and what follows it once the image is a row of numbers, or a row of each pixel's channels."""

    def __init__(self, by_pixel):
        super().__init__()
        self.by_pixel, self.conv = by_pixel, nn.Conv2d(3, 8, 3, padding=1)
        self.linear = nn.Linear(8 if by_pixel else 8 * 36, 5)

    def forward(self, x):
        x = F.gelu(self.conv(x))
        x = x.permute(0, 2, 3, 1) if self.by_pixel else x.reshape(x.shape[0], -1)
        return torch.relu(self.linear(x))


@pytest.mark.parametrize("producers", ["inductor", "eager"])
@pytest.mark.parametrize("by_pixel", [False, True])
@pytest.mark.parametrize("dynamic", [None, True])
def test_channels_last_images_become_rows_of_numbers(by_pixel, dynamic, producers):
    model = Classifier(by_pixel).eval().to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    run, report = compiled(model, x, dynamic=dynamic, options={"producers": producers})
    assert (len(report.kernels), report.producers, report.fallback) == (2, producers, ""), report
    with torch.no_grad():
        more = torch.randn(5, 3, 6, 6).to(memory_format=torch.channels_last)
        torch.testing.assert_close(run(more), model(more), **TOLERANCES[torch.float32])


def test_the_log_says_what_of_a_backward_pass_was_fused(caplog):
    model, (x,) = load(1)
    run = torch.compile(model, backend="epifuse", options={"producers": "eager"})
    with caplog.at_level(logging.INFO, "epifuse"):
        run(x).sum().backward()
    # All but the convolution; older releases have more detach() to count.
    forward = re.search(r"forward: (\d+) of (\d+) operations became 1 kernel", caplog.text)
    assert forward and int(forward[1]) + 1 == int(forward[2]) >= 7, caplog.text
    assert "backward: 3 of 3 operations became 2 kernels" in caplog.text and "kernel of where, sum: t0 = where(" in caplog.text
    found = model.bias.grad.clone()
    model.zero_grad()
    model(x).sum().backward()
    torch.testing.assert_close(found, model.bias.grad)


def test_the_log_says_what_was_fused_and_what_was_left(caplog):
    model, (x,) = load(1)
    with caplog.at_level(logging.INFO, "epifuse"):
        compiled(model, x)
    assert (
        "3 of 4 operations became 1 kernel" in caplog.text
        and "convolution (not an operation that EpiFuse has)" in caplog.text
    )
    assert "kernel of bias, relu, add: relu(x0 + x1) + x2" in caplog.text


class Block(nn.Module):
    """A transformer's block: attention, gates, two norms and residuals."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.RMSNorm(width, eps=1e-5)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.gate, self.down = nn.Linear(width, 64), nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            one.view(batch, length, self.heads, -1).transpose(1, 2) for one in self.qkv(self.first(x)).chunk(3, -1)
        )
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(batch, length, width))
        h = self.second(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def test_a_transformer_block():
    _, report = compiled(Block().eval(), torch.randn(2, 7, 32))
    assert len(report.kernels) >= 4
    _, report = compiled(Block().eval(), torch.randn(3, 9, 32), dynamic=True)
    assert any("silu" in names and "mul" in names for names in report.fused)


def test_batch_norm_in_evaluation_joins_the_tail():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 1),
        nn.BatchNorm2d(8),
        nn.SiLU(),
    ).eval()
    model[1].running_var.uniform_(0.5, 2)
    _, report = compiled(model, torch.randn(2, 3, 12, 12))
    assert len(report.kernels) == 2


class Odd(nn.Module):
    """One function as a model."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def in_place(x):
    y = x + 1
    y.relu_()
    y[:, 0] = 3
    y *= 2
    return y


def writes_its_input(x):
    x.mul_(2)
    return torch.sigmoid(x) + 1


@pytest.mark.parametrize(
    "function",
    [
        in_place,
        lambda x: (torch.relu(x + 1), torch.relu(x + 1).mean(1)),
        lambda x: torch.cumsum(torch.sigmoid(x) * 2, 0).exp() + torch.sigmoid(x),
        lambda x: (x * 2).view(3, 2, -1).transpose(0, 1).tanh(),
        lambda x: torch.cat([torch.relu(x), x.sigmoid()], 1).abs() + 1,
        lambda x: (x > 0).sum() + (x.long() * 2 + 1).float().sigmoid().sum(),
        lambda x: torch.where(x > 0, x, torch.zeros_like(x)).softmax(-1).max(-1)[0],
        lambda x: F.pad(torch.tanh(x) + 1, (1, 1)).mul(3).sub(1),
        lambda x: x.expand(2, *x.shape).sigmoid() + 1,
        lambda x: torch.sort((x * 2).cos(), dim=1)[0].exp(),
        lambda x: (x + torch.arange(x.shape[-1], dtype=torch.float32)).exp2() / x.shape[0],
        lambda x: (
            (
                F.elu(x)
                + F.selu(x)
                + F.celu(x, 0.5)
                + F.hardshrink(x)
                + F.softshrink(x)
                + F.logsigmoid(x)
                + F.softplus(x)
            )
            / 7
        ),
        lambda x: x.to(torch.float16).mul(2).to(torch.float32).sin(),
        lambda x: (x.unsqueeze(1) * x.unsqueeze(2)).relu().amax(1),
        lambda x: torch.relu(x).t().contiguous() + 1,
        lambda x: (x * 2, x * 2 + x.mean(-1, keepdim=True)),
        lambda x: x.double().exp().sum(-1).float() + x.var(-1),
        lambda x: x[:, 1:] * 2 + x[:, :-1].relu(),
        lambda x: x.nan_to_num() + torch.full_like(x, 2.0) * torch.ones(()),
        lambda x: x,
        lambda x: x.t(),
        lambda x: torch.sigmoid(x + 1).bool() & (x > 1),
    ],
    ids=range(22),
)
def test_functions_that_are_hard_to_cut(function):
    compiled(Odd(function), torch.randn(6, 8))


def test_a_model_that_writes_its_input():
    x = torch.randn(6, 8)
    a, b = x.clone(), x.clone()
    with torch.no_grad():
        want = writes_its_input(a)
        found = torch.compile(writes_its_input, backend="epifuse")(b)
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(b, a)


def test_random_numbers_are_those_of_inductor():
    """Inductor decides in which order the draws run: that of 2.7 runs the dropout before the second `rand_like`."""

    def function(x):
        a = torch.rand_like(x)
        b = torch.relu(x + a)
        c = torch.rand_like(x)
        return F.dropout(b, 0.5) + c * 2, torch.rand(3)

    x = torch.randn(6, 8)
    with torch.no_grad():
        torch.manual_seed(1)
        want = torch.compile(function, backend="inductor", options={"fallback_random": True})(x)
        torch._dynamo.reset()
        torch.manual_seed(1)
        found = torch.compile(function, backend="epifuse")(x)
    for a, b in zip(want, found, strict=True):
        torch.testing.assert_close(b, a)


def test_unknown_options_are_refused():
    with pytest.raises(Exception, match="no option 'fast'; it has: producers, tune, channels_last, mode"):
        torch.compile(lambda x: x + 1, backend="epifuse", options={"fast": True})(torch.zeros(3))
