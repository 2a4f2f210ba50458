"""Matrix products in chains, traced functions and compiled models, against PyTorch's and NumPy's own."""

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


def test_compiled_models_train_with_hosted_products():
    torch.manual_seed(5)
    model, x = Block().bfloat16(), torch.randn(4, 32, 64).bfloat16()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="epifuse", options={"gemm": True})
    gradients, weight = [], torch.randn(4, 32, 64)
    for run in (compiled, model):
        model.zero_grad()
        (run(x).float() * weight).sum().backward()
        gradients.append([one.grad.float().clone() for one in model.parameters()])
    for made, expected in zip(*gradients):
        assert (made - expected).abs().max() <= 0.05 * (1 + expected.abs().max())
