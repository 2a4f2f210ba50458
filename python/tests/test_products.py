"""Products and convolutions in chains, traced functions and compiled models, against PyTorch's and NumPy's own."""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import torch.nn.functional as F  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from tails import as_written  # noqa: E402

import epifuse  # noqa: E402
from epifuse import _torch_backend  # noqa: E402

UNIT = {torch.float64: 2.0**-48, torch.float32: 2.0**-18, torch.float16: 2.0**-8, torch.bfloat16: 2.0**-5}


def close(found, expected):
    unit = UNIT[expected.dtype]
    assert found.dtype == expected.dtype and found.shape == expected.shape
    wrong = (found.double() - expected.double()).abs() > unit * (1 + expected.double().abs())
    assert not wrong.any(), (found, expected)


def drawn(rng, dtype, *shape):
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def test_text_is_linear_of_pytorch():
    rng = random.Random(1)
    x, w, b = (drawn(rng, torch.float32, *shape) for shape in ((3, 5, 16), (8, 16), (8,)))
    close(as_written("gelu(linear(x, w, b))")(x, w, b), F.gelu(F.linear(x, w, b)))
    close(as_written("x @ w")(x, w.T.contiguous()), x @ w.T)


def test_text_is_conv2d_of_pytorch():
    rng = random.Random(2)
    for _ in range(20):
        stride, dilation = ([rng.randint(1, 2) for _ in range(2)] for _ in range(2))
        padding = [rng.randint(0, 2) for _ in range(2)]
        x, w, b = (drawn(rng, torch.float32, *shape) for shape in ((2, 5, 9, 8), (4, 5, 3, 2), (4,)))
        if rng.random() < 0.5:
            x = x.to(memory_format=torch.channels_last)
        how = f"stride={tuple(stride)}, padding={tuple(padding)}, dilation={tuple(dilation)}"
        expected = torch.relu(F.conv2d(x, w, b, stride, padding, dilation))
        close(as_written(f"relu(conv2d(x, w, b, {how}))")(x, w, b), expected)


@pytest.mark.parametrize("images", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("filters", [torch.contiguous_format, torch.channels_last], ids=str)
def test_a_convolution_lies_as_pytorchs(images, filters):
    rng = random.Random(6)
    x = drawn(rng, torch.float32, 2, 5, 9, 8).to(memory_format=images)
    w = drawn(rng, torch.float32, 4, 5, 3, 3).to(memory_format=filters)
    b = drawn(rng, torch.float32, 4)
    tail = as_written("relu(conv2d(x, w, padding=1)) + b[:, None, None]")
    expected = torch.relu(F.conv2d(x, w, padding=1)) + b[:, None, None]
    close(tail(x, w, b), expected)
    assert tail(x, w, b).stride() == expected.stride()
    with FakeTensorMode() as mode:
        made = tail(*map(mode.from_tensor, (x, w, b)))
    assert made.stride() == expected.stride()


def test_a_convolution_of_channels_last_images_hosts_what_stands_behind_it():
    tail = as_written("relu(conv2d(x, w, padding=1)) + b[:, None, None]")
    last = tail.plan("f16[32,64,28,28]:nhwc", "f16[128,64,3,3]:nhwc", "f16[128]", arch=90)
    first = tail.plan("f16[32,64,28,28]", "f16[128,64,3,3]", "f16[128]", arch=90)
    assert last.schedule == "gemm" and first.schedule != "gemm"


@pytest.mark.parametrize("dtype", list(UNIT), ids=str)
def test_random_batches_and_layouts(dtype):
    rng = random.Random(29)
    tail = as_written("relu(x @ w) - 1")
    for _ in range(60):
        batch = [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
        rows, depth, columns = (rng.randint(1, 9) for _ in range(3))

        def factor(first, second, batch=batch):
            of = [1 if rng.random() < 0.3 else one for one in batch[rng.randint(0, len(batch)) :]]
            if rng.random() < 0.5:
                return drawn(rng, dtype, *of, second, first).mT
            return drawn(rng, dtype, *of, first, second + 1)[..., :second]

        x, w = factor(rows, depth), factor(depth, columns)
        close(tail(x, w), torch.relu(x @ w) - 1)


@epifuse.fuse
def feed_forward(x, w, b, residual):
    return F.gelu(F.linear(x, w, b)) + residual


@epifuse.fuse
def gated(x, w):
    gate, up = F.linear(x, w).chunk(2, -1)
    return F.silu(gate) * up


@epifuse.fuse
def scores(q, k):
    return torch.softmax(torch.matmul(q, k.mT) * 0.25, -1)


@epifuse.fuse
def added(x, a, b):
    return torch.addmm(x, a, b, beta=0.5, alpha=2).relu()


def test_traced_functions():
    rng = random.Random(2)
    x, w, b, r = (drawn(rng, torch.float32, *shape) for shape in ((6, 16), (8, 16), (8,), (6, 8)))
    close(feed_forward(x, w, b, r), F.gelu(F.linear(x, w, b)) + r)
    gate, up = F.linear(x, w).chunk(2, -1)
    close(gated(x, w), F.silu(gate) * up)
    q, k = drawn(rng, torch.float32, 2, 3, 5, 16), drawn(rng, torch.float32, 2, 3, 7, 16)
    close(scores(q, k), torch.softmax(q @ k.mT * 0.25, -1))
    close(added(r, x, w.T), torch.addmm(r, x, w.T, beta=0.5, alpha=2).relu())


@epifuse.fuse
def convolved(x, w, b, residual):
    return F.relu(F.conv2d(x, w, b, stride=2, padding=(1, 0))) + residual


@epifuse.fuse
def convolved_as_large(x, w):
    return torch.conv2d(x, w, padding="same", dilation=(2, 1)).sigmoid()


@epifuse.fuse
def convolved_view(x, w):
    return F.conv2d(x.permute(0, 3, 1, 2), w, padding="valid").relu()


def test_traced_convolutions():
    rng = random.Random(7)
    x, w, b = (drawn(rng, torch.float32, *shape) for shape in ((2, 5, 9, 8), (4, 5, 3, 3), (4,)))
    expected = F.relu(F.conv2d(x, w, b, stride=2, padding=(1, 0)))
    r = drawn(rng, torch.float32, *expected.shape)
    close(convolved(x, w, b, r), expected + r)
    close(convolved(x, w, None, r), F.relu(F.conv2d(x, w, None, stride=2, padding=(1, 0))) + r)
    close(convolved_as_large(x, w), torch.conv2d(x, w, padding="same", dilation=(2, 1)).sigmoid())
    channels_last = x.to(memory_format=torch.channels_last)
    expected = torch.conv2d(channels_last, w, padding="same", dilation=(2, 1))
    assert convolved_as_large(channels_last, w).stride() == expected.stride()
    close(convolved_view(x.permute(0, 2, 3, 1).contiguous(), w), F.conv2d(x, w).relu())
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        x, w, b, r = (one.to(dtype) for one in (x, w, b, r))
        close(convolved(x, w, b, r), F.relu(F.conv2d(x, w, b, stride=2, padding=(1, 0))) + r)


@pytest.mark.parametrize(
    "function, images, filters, part",
    [
        (lambda x, w: F.conv2d(x, w, groups=2), (1, 4, 5, 5), (4, 2, 3, 3), "'conv2d' with groups=2: a chain"),
        (lambda x, w: F.conv2d(x, w), (4, 5, 5), (4, 4, 3, 3), "'conv2d' of an image without a batch"),
        (lambda x, w: F.conv2d(x.half(), w), (1, 4, 5, 5), (4, 4, 3, 3), "'conv2d' of f16 and f32: convert one before"),
        (lambda x, w: F.conv2d(x.relu(), w), (1, 4, 5, 5), (4, 4, 3, 3), "of 'conv2d' is a result of 'relu'"),
        (lambda x, w: F.conv2d(x, w, padding="same"), (1, 4, 5, 5), (4, 4, 2, 3), "filters of even size"),
        (lambda x, w: F.conv_transpose2d(x, w), (1, 4, 5, 5), (4, 4, 3, 3), "conv_transpose2d is not an operation"),
    ],
)
def test_refused_convolutions(function, images, filters, part):
    with pytest.raises((ValueError, TypeError)) as found:
        epifuse.fuse(function)(torch.ones(images), torch.ones(filters))
    assert part in str(found.value)


def test_convolutions_of_integers_are_refused():
    with pytest.raises(TypeError, match="'conv2d' of integers"):
        epifuse.fuse(lambda x, w: F.conv2d(x, w))(torch.ones(1, 4, 5, 5).int(), torch.ones(4, 4, 3, 3).int())


def test_what_pytorch_refuses_of_convolutions_is_its_error():
    with pytest.raises(RuntimeError):
        epifuse.fuse(lambda x, w: F.conv2d(x, w))(torch.ones(1, 4, 5, 5), torch.ones(4, 3, 3, 3))


def test_numpy():
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((5, 16)), rng.standard_normal((16, 4))
    made = epifuse.fuse(lambda x, w: np.maximum(x @ w, 0))(x, w)
    np.testing.assert_allclose(made, np.maximum(x @ w, 0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "call, part",
    [
        (lambda x, w: as_written("relu(x) @ w")(x, w), "the first argument of 'matmul' is a result of 'relu'"),
        (lambda x, w: epifuse.fuse(lambda x, w: x @ w)(x.half(), w), "'matmul' of f16 and f32"),
        (lambda x, w: epifuse.fuse(lambda x, w: x @ w)(x.int(), w.int()), "'matmul' of integers"),
        (lambda x, w: epifuse.fuse(lambda x, w: x @ w)(x[0], w), "'matmul' of a vector"),
        (lambda x, w: as_written("x @ w")(x, w[1:]), "4 and 3 are not equal"),
        (lambda x, w: as_written("relu(x @ w)")(x.requires_grad_(), w), "the gradient of 'matmul'"),
    ],
)
def test_refusals(call, part):
    with pytest.raises((ValueError, TypeError)) as found:
        call(torch.ones(2, 4), torch.ones(4, 3))
    assert part in str(found.value)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64), torch.nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(x + self.down(F.gelu(self.up(x))))


@pytest.mark.parametrize("producers", ["inductor", "eager"])
def test_compiled_models_host_chains_in_products_when_asked(producers):
    torch.manual_seed(4)
    model, x = Block().bfloat16(), torch.randn(4, 32, 64).bfloat16()
    for gemm in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="epifuse", options={"gemm": gemm, "producers": producers})
        with torch.no_grad():
            made, expected = compiled(x), model(x)
        assert (made - expected).abs().max() < 0.1
        report = _torch_backend.REPORTS[-1]
        assert not report.fallback
        hosted = [text for text in report.kernels if "@" in text]
        assert len(hosted) == (2 if gemm else 0), report.kernels
    assert not report.left


def test_compiled_models_multiply_f32_as_tf32_where_pytorch_does():
    torch.manual_seed(4)
    model, x = Block(), torch.randn(4, 32, 64)
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high"):
            torch.set_float32_matmul_precision(precision)
            torch._dynamo.reset()
            compiled = torch.compile(model, backend="epifuse", options={"gemm": True})
            with torch.no_grad():
                assert (compiled(x) - model(x)).abs().max() < 1e-2
            # No kernel hosts a chain behind a product of f32 itself: PyTorch computes it.
            hosted = [text for text in _torch_backend.REPORTS[-1].kernels if "@" in text or "matmul(" in text]
            assert all("tf32=true" in text for text in hosted), hosted
            assert bool(hosted) == (precision == "high"), hosted
    finally:
        torch.set_float32_matmul_precision(before)


def scaled(factor, scales):
    """The factor as f32, times the scales of its blocks."""
    for dim, extent in enumerate(factor.shape if scales.dim() else ()):
        if scales.shape[dim] != extent:
            scales = scales.repeat_interleave(extent if scales.shape[dim] == 1 else 128, dim).narrow(dim, 0, extent)
    return factor.float() * scales


def test_compiled_models_multiply_by_scales_as_pytorch_has_them():
    def model(x, w, sx, sw, b, r):
        return torch.relu(torch._scaled_mm(x, w.t(), sx, sw, bias=b, out_dtype=torch.bfloat16)) + r

    torch.manual_seed(5)
    rows, columns, depth = 150, 256, 512
    x = torch.randn(rows, depth).to(torch.float8_e4m3fn)
    w = torch.randn(columns, depth).to(torch.float8_e4m3fn)
    b, r = torch.randn(columns).bfloat16(), torch.randn(rows, columns).bfloat16()
    blocks = depth // 128
    for sx, sw in (
        (torch.rand(blocks, rows).t(), torch.rand(blocks, columns // 128)),
        (torch.rand(blocks, rows).t(), torch.rand(blocks, columns)),
        (torch.rand(rows, 1), torch.rand(1, columns)),
        (torch.tensor(0.5), torch.tensor(2.0)),
    ):
        torch._dynamo.reset()
        made = torch.compile(model, backend="epifuse", options={"gemm": True})(x, w, sx, sw, b, r)
        expected = torch.relu(scaled(x, sx) @ scaled(w.t(), sw) + b) + r
        assert (made - expected).abs().max() <= 2.0**-7 * expected.abs().max()
        report = _torch_backend.REPORTS[-1]
        assert [text.count("block_scaled") for text in report.kernels] == [2] and not report.left, report.kernels


def test_text_multiplies_by_scales_of_blocks():
    torch.manual_seed(6)
    x, w = (torch.randn(*shape).to(torch.float8_e5m2) for shape in ((70, 300), (300, 200)))
    sx, sw = torch.rand(70, 3), torch.rand(3, 2)
    made = as_written("scaled_mm(x, w, sx, sw)")(x, w, sx, sw)
    expected = scaled(x, sx).double() @ scaled(w, sw).double()
    assert made.dtype == torch.float32
    assert (made - expected).abs().max() <= 2.0**-18 * expected.abs().max()


def check_gradients(compiled, model, x, weight):
    """Of the parameters, of a weighted sum: those of the compiled model are those of the model."""
    gradients = []
    for run in (compiled, model):
        model.zero_grad()
        (run(x).float() * weight).sum().backward()
        gradients.append([one.grad.float().clone() for one in model.parameters()])
    for made, expected in zip(*gradients):
        assert (made - expected).abs().max() <= 0.05 * (1 + expected.abs().max())


def test_compiled_models_train_with_hosted_products():
    torch.manual_seed(5)
    model, x = Block().bfloat16(), torch.randn(4, 32, 64).bfloat16()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="epifuse", options={"gemm": True})
    check_gradients(compiled, model, x, torch.randn(4, 32, 64))


class Residual(torch.nn.Module):
    """As ResNet has them: two convolutions that host what stands behind them, one in groups, one of few filters."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(64, 128, 3, stride=2, padding=1, bias=False), torch.nn.BatchNorm2d(128)
        self.second = torch.nn.Conv2d(128, 128, 3, padding=1)
        self.grouped = torch.nn.Conv2d(128, 128, 3, groups=4)
        self.few = torch.nn.Conv2d(128, 16, 1)

    def forward(self, x):
        y = F.relu(self.norm(self.first(x)))
        y = F.relu(y + self.second(y))
        return torch.sigmoid(self.few(F.relu(self.grouped(y))))


def residual(memory_format):
    torch.manual_seed(6)
    model = Residual().eval()
    with torch.no_grad():
        for one in model.norm.parameters():
            one.normal_()
        model.norm.running_var.uniform_(0.5, 2)
    x = torch.randn(2, 64, 18, 18).bfloat16().to(memory_format=memory_format)
    return model.bfloat16().to(memory_format=memory_format), x


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("producers", ["inductor", "eager"])
def test_compiled_models_host_chains_in_convolutions_when_asked(producers, dynamic):
    model, x = residual(torch.channels_last)
    for gemm in (False, True):
        torch._dynamo.reset()
        options = {"gemm": gemm, "producers": producers}
        compiled = torch.compile(model, backend="epifuse", options=options, dynamic=dynamic)
        for images in (x, x[:1, :, :16]):
            images = images.contiguous(memory_format=torch.channels_last)
            with torch.no_grad():
                made, expected = compiled(images), model(images)
            assert (made - expected).abs().max() < 0.02 and made.stride() == expected.stride()
        report = _torch_backend.REPORTS[-1]
        assert not report.fallback
        hosted = [text for text in report.kernels if "conv2d" in text]
        assert len(hosted) == (2 if gemm else 0), report.kernels
    why = {reason for (name, reason), _ in report.left.items() if name == "convolution"}
    assert why == {"its channels are in 4 groups", "cuDNN is faster with fewer than 64 channels or 128 filters"}


def test_compiled_models_leave_row_major_convolutions_to_pytorch():
    model, x = residual(torch.contiguous_format)
    torch._dynamo.reset()
    with torch.no_grad():
        made, expected = torch.compile(model, backend="epifuse", options={"gemm": True})(x), model(x)
    assert (made - expected).abs().max() < 0.02
    report = _torch_backend.REPORTS[-1]
    assert not any("conv2d" in text for text in report.kernels)
    assert any("the kernel copies pixels whose channels are contiguous" in reason for _, reason in report.left)


@pytest.mark.parametrize("producers", ["inductor", "eager"])
def test_compiled_models_train_with_hosted_convolutions(producers):
    torch.manual_seed(8)
    layers = (torch.nn.Conv2d(64, 128, 3), torch.nn.ReLU(), torch.nn.Conv2d(128, 128, 3), torch.nn.ReLU())
    model = torch.nn.Sequential(*layers).bfloat16().to(memory_format=torch.channels_last)
    x = torch.randn(2, 64, 12, 12).bfloat16().to(memory_format=torch.channels_last)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="epifuse", options={"gemm": True, "producers": producers})
    check_gradients(compiled, model, x, torch.randn(2, 128, 8, 8))
    forward = next(one for one in reversed(_torch_backend.REPORTS) if one.phase == "forward")
    assert sum("conv2d" in text for text in forward.kernels) == 2
