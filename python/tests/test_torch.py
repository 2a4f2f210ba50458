"""Tails of PyTorch's tensors on the CPU device, the operator epifuse::tail, and functions of torch that are traced."""

import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402
from tails import as_written  # noqa: E402

import epifuse  # noqa: E402

TAIL = as_written("(minimum(x, 0.5) + bias) * 2")


def operands(dtype=torch.float32, shape=(4, 8, 6, 5)):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator).to(dtype), torch.randn((shape[1], 1, 1), generator=generator)


def expected(x, bias):
    return (x.float().clamp(max=0.5) + bias) * 2


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
)
def test_every_float_type(dtype):
    x, bias = operands(dtype)
    y = TAIL(x, bias, dtype=dtype)
    assert type(y) is torch.Tensor and y.dtype == dtype and y.device == x.device
    torch.testing.assert_close(
        y.float(), expected(x, bias).to(dtype).float(), rtol=0 if dtype != torch.float64 else 1e-6, atol=1e-6
    )


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool])
def test_integers_and_truth(dtype):
    x = torch.arange(12).reshape(3, 4).to(dtype)
    assert torch.equal(epifuse.compile("x * 2 + 1", dtype="f32")(x), x.float() * 2 + 1)
    y = TAIL(x, torch.zeros(4), dtype=torch.bfloat16)
    assert y.dtype == torch.bfloat16


def test_layouts_are_taken_and_kept():
    x, bias = operands()
    last = x.to(memory_format=torch.channels_last)
    y = TAIL(last, bias)
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(y, expected(x, bias))
    sliced = x[:, :, ::2, 1:]
    assert torch.equal(TAIL(sliced, bias), expected(sliced, bias))
    assert TAIL(x.transpose(0, 3), torch.zeros(())).stride() == (x + 0).transpose(0, 3).stride()


def test_results_are_tensors_like_any_other():
    x, bias = operands()
    y = TAIL(x, bias)
    y += 1
    y.view(-1)[0] = 5
    z = TAIL(y, bias)
    del x, y
    assert z.reshape(4, -1).sum().isfinite()
    # PyTorch's own memory, not somebody's that it was lent: record_stream() and resizing know only that.
    for result in (z, TAIL(z, bias, dtype="f16"), TAIL(z.transpose(2, 3), torch.zeros(()))):
        assert result.untyped_storage().resizable()


def test_in_place_and_out():
    x, bias = operands()
    want = expected(x, bias)
    assert TAIL(x, bias, out=x) is x
    assert torch.equal(x, want)


def test_autograd_records_where_gradients_are_on():
    x, bias = operands()
    weight = torch.nn.Parameter(bias)
    assert TAIL(x, weight).requires_grad
    with torch.no_grad():
        found = TAIL(x, weight)
        assert torch.equal(found, expected(x, bias)) and not found.requires_grad
    assert torch.equal(TAIL(x, weight.detach()), expected(x, bias))
    with torch.inference_mode():
        assert TAIL(x + 0, weight).shape == x.shape


def test_bad_tensors():
    x, bias = operands()
    for bad, text in [
        (torch.zeros(2, 3).to_sparse(), "no memory"),
        (torch.zeros(3, dtype=torch.complex64), "type"),
        (torch.zeros(3, device="meta"), "operand 'bias'|meta"),
    ]:
        with pytest.raises((ValueError, TypeError), match=text):
            TAIL(x, bad)


def test_frameworks_mix_on_one_device():
    numpy = pytest.importorskip("numpy")
    x, bias = operands()
    assert torch.equal(TAIL(x, bias.numpy()), expected(x, bias))
    assert isinstance(TAIL(x.numpy(), bias), numpy.ndarray)


def test_torch_functions_are_traced():
    @epifuse.fuse
    def tail(x, bias, slope: float):
        y = F.gelu(x + bias, approximate="tanh")
        y = torch.clamp(y, min=-1).sigmoid() * F.leaky_relu(x, slope)
        return F.hardswish(y).to(torch.float16).float()

    x, bias = operands()
    y = F.gelu(x + bias, approximate="tanh")
    want = F.hardswish(torch.clamp(y, min=-1).sigmoid() * F.leaky_relu(x, 0.2))
    torch.testing.assert_close(tail(x, bias, 0.2), want, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: F.layer_norm(x, (5,), w, w, 1e-3),
        lambda x, w: F.rms_norm(x, (5,), w, 1e-5),
        lambda x, w: F.softmax(x, dim=-1),
        lambda x, w: torch.log_softmax(x, -1),
        lambda x, w: F.group_norm(x, 4),
        lambda x, w: F.instance_norm(x),
        lambda x, w: F.normalize(x, dim=-1),
        lambda x, w: torch.logsumexp(x, -1),
        lambda x, w: x.std(-1),
        lambda x, w: torch.linalg.vector_norm(x, dim=-1),
        lambda x, w: x.amax((2, 3)),
        lambda x, w: F.dropout(x, 0.5, training=False) + w,
        lambda x, w: x.masked_fill(x > 0, 2.0),
        lambda x, w: torch.lerp(x, w, 0.3),
        lambda x, w: torch.addcmul(x, w, w, value=0.5),
        lambda x, w: x.max(dim=-1)[0],
        lambda x, w: 2**x - torch.rsub(w, 1),
        lambda x, w: F.softplus(x, 2.0, 10.0),
        lambda x, w: torch.where(x > w, x, -w).unsqueeze(-1),
    ],
    ids=lambda function: None,
)
def test_norms_and_friends_are_traced(function):
    x, w = operands()[0], torch.linspace(0.5, 1.5, 5)
    torch.testing.assert_close(epifuse.fuse(function)(x, w), function(x, w), rtol=2e-5, atol=2e-5)


def test_prelu_takes_a_weight_that_broadcasts():
    x, w = operands()[0], torch.tensor(0.25)
    torch.testing.assert_close(epifuse.fuse(lambda x, w: F.prelu(x, w))(x, w), F.prelu(x, w.reshape(1)))


def test_the_operator_passes_pytorchs_own_checks():
    x, bias = operands()
    arguments = (
        [x, bias],
        [2.0],
        "scalar alpha; t = x + bias; return t * alpha, mean(t, axis=(1, 2), keepdim=true)",
        "f16:,:",
    )
    first, second = torch.ops.epifuse.tail(*arguments)
    torch.testing.assert_close(first, ((x + bias) * 2).half())
    torch.library.opcheck(torch.ops.epifuse.tail.default, arguments)
    x.requires_grad_()
    assert torch.ops.epifuse.tail([x], [], "x + 1", ":")[0].requires_grad
    wanted = ([x, bias.requires_grad_()], [2.0], "scalar alpha; alpha * gelu(x + bias)", ":", [0, 1], [])
    torch.library.opcheck(torch.ops.epifuse.recorded.default, wanted)


@pytest.mark.parametrize(
    "shape, chain",
    [
        ((6, 4, 5), "softmax(x, axis=1)"),
        ((6, 4, 5), "x = x; m = mean(x, axis=(0, 2)); return m, x > 0"),
        ((6, 4, 5), "group_norm(x, 2)"),
        ((6, 4, 5), "unflatten(x, 0, (2, -1)) * 2"),
        ((2, 3), "flatten(x, 0, 1)"),
        ((6, 4, 5), "sum(x)"),
        ((2, 3, 4), "var(x, axis=(1, ...))"),
        ((2, 3, 4), "mean(x, axis=(0, -1, ...), keepdim=true)"),
        ((4, 6), "mean(x, axis=(0, 2, ...), keepdim=true)"),  # nothing stands behind dimension 1
        ((4, 6), "batch_norm(x)"),
    ],
)
def test_fake_results_have_the_real_shapes(shape, chain):
    from torch._subclasses.fake_tensor import FakeTensorMode

    if chain.startswith("x = x"):
        chain = chain.removeprefix("x = x; ")
    tail = epifuse.compile(chain)
    x = torch.randn(shape)
    real = tail(x)
    with FakeTensorMode() as mode:
        fake = tail(mode.from_tensor(x))
    for a, b in zip(real if isinstance(real, tuple) else [real], fake if isinstance(fake, tuple) else [fake]):
        assert a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype


@pytest.mark.parametrize("name", ["eager", "aot_eager", "epifuse"])
def test_a_tail_goes_through_torch_compile_in_one_graph(name):
    @torch.compile(backend=name, fullgraph=True, dynamic=True)
    def model(x, bias):
        y = TAIL(x * 3, bias=bias)
        return y.view(y.shape[0], -1).sum(1)

    for batch in (4, 7):
        x, bias = operands(shape=(batch, 8, 6, 5))
        torch.testing.assert_close(model(x, bias), expected(x * 3, bias).view(batch, -1).sum(1))


@pytest.mark.parametrize("name", ["eager", "epifuse"])
def test_a_fused_function_goes_through_torch_compile(name):
    @epifuse.fuse
    def tail(x, bias, alpha):
        y = F.gelu(x + bias) * alpha
        return y, y > 0

    x, bias = operands(torch.float16)
    y, positive = torch.compile(lambda x, bias: tail(x * 2, bias, 0.5), backend=name, fullgraph=True)(x, bias)
    assert y.dtype == torch.float32 and positive.dtype == torch.bool  # as of the call outside
    torch.testing.assert_close(y, tail(x * 2, bias, 0.5)[0])


def test_export():
    class Model(torch.nn.Module):
        def forward(self, x, bias):
            return TAIL(x, bias) + 1

    x, bias = operands()
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Model(), (x, bias), dynamic_shapes={"x": {0: batch}, "bias": None})
    assert any(node.target is torch.ops.epifuse.tail.default for node in program.graph.nodes)
    x, bias = operands(shape=(9, 8, 6, 5))
    torch.testing.assert_close(program.module()(x, bias), expected(x, bias) + 1)


def test_calls_that_were_made_before():
    """The short way for known layouts gives what the long one gives, and knows what it must not take."""
    tail = as_written("scalar a; t = x * a + b; return t, t > 0")
    for turn in range(3):
        for shape in ((4, 6), (6, 4), (2, 3, 5), (1, 7), (9,), (0, 4)):  # more than are remembered
            for dtype in (torch.float32, torch.float16):
                x, b = torch.randn(shape).to(dtype), torch.randn(shape[-1:]).to(dtype)
                t, positive = tail(x, b, turn + 0.5)
                torch.testing.assert_close(t, ((x.float() * (turn + 0.5)) + b.float()).to(dtype), rtol=1e-3, atol=1e-3)
                assert torch.equal(positive, x.float() * (turn + 0.5) + b.float() > 0) and t.dtype == dtype
    one = epifuse.compile("x * 2")
    x = torch.randn(2, 3, 4, 5)
    for _ in range(3):
        assert torch.equal(one(x), x * 2)
        last = one(x.to(memory_format=torch.channels_last))
        assert torch.equal(last, x * 2) and last.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(one(x[:, 1:]), x[:, 1:] * 2)
        out = torch.empty_like(x)
        assert one(x, out=out) is out and torch.equal(out, x * 2)
        assert one(x, dtype=torch.float16).dtype == torch.float16 and one(x).dtype == torch.float32
        y = x.clone()
        assert one(y, out=y) is y and torch.equal(y, x * 2)
    assert one(x.clone().requires_grad_()).requires_grad  # also where the call without is known
    with torch.no_grad():
        assert torch.equal(one(x.clone().requires_grad_()), x * 2)
    with pytest.raises(ValueError, match="requires grad, and no operand does"):
        one(x, out=torch.empty_like(x).requires_grad_())
    with pytest.raises(ValueError, match="overlap"):
        memory = torch.randn(2 * x.numel())
        one(memory[: x.numel()], out=memory[1 : x.numel() + 1])
    with torch.inference_mode():
        assert one(x).is_inference()
    assert not one(x).requires_grad


def test_calls_from_many_threads():
    tail = as_written("relu(x) + b")
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for i in range(1000):
            x = torch.randn(1 + (seed + i) % 7, 5, generator=generator)
            b = torch.randn(5, generator=generator)
            if not torch.equal(tail(x, b), torch.relu(x) + b):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- the types of a tail's results, copied, pickled, traced and exported


TYPED = epifuse.compile("return x * 100, x > 0.5", dtype=["i8", "f16"])


def typed_results(x):
    scaled = (x * 100).round().clamp(-128, 127)
    return scaled.to(torch.int8), (x > 0.5).half()


def assert_typed(found, x):
    for one, other in zip(found, typed_results(x)):
        assert one.dtype == other.dtype and torch.equal(one, other)


def test_copies_keep_the_types_of_results():
    import copy
    import pickle

    x = torch.linspace(-3, 3, 24).reshape(4, 6)
    for again in (TYPED, copy.copy(TYPED), copy.deepcopy(TYPED), pickle.loads(pickle.dumps(TYPED))):
        assert again.dtypes == ("i8", "f16")
        assert_typed(again(x), x)


@pytest.mark.parametrize("name", ["eager", "aot_eager"])
def test_compiled_tails_keep_the_types_of_results(name):
    x = torch.linspace(-3, 3, 24).reshape(4, 6)
    assert_typed(torch.compile(lambda x: TYPED(x), backend=name, fullgraph=True)(x), x)
    one = torch.compile(lambda x: TYPED(x, dtype=[None, "f32"]), backend=name, fullgraph=True)(x)
    assert (one[0].dtype, one[1].dtype) == (torch.int8, torch.float32)


def test_exported_tails_keep_the_types_of_results():
    class Model(torch.nn.Module):
        def forward(self, x):
            return TYPED(x)

    x = torch.linspace(-3, 3, 24).reshape(4, 6)
    assert_typed(torch.export.export(Model(), (x,)).module()(x), x)


@pytest.mark.parametrize("kind", ["i8", "u8", "i32", "i64", "f8e4m3", "f8e5m2", "f16", "bool"])
def test_out_and_dtype_saturate_while_traced_as_in_a_call(kind):
    torch.compiler.reset()  # each type is a compilation of the same code
    dtype = getattr(torch, epifuse._arrays.NAMES[kind])
    x = torch.tensor([-1e30, -1e5, -300.0, -2.5, -0.5, 0.0, 0.5, 1.5, 127.5, 300.0, 1e30, float("inf"), float("nan")])
    tail = epifuse.compile("x * 1")
    fused = epifuse.fuse(lambda x: x * 1)
    wanted = tail(x, dtype=kind).double()
    out = torch.zeros(x.shape, dtype=dtype)
    for called in (tail, fused):
        for traced in (
            torch.compile(lambda x, out: called(x, out=out), backend="eager", fullgraph=True)(x, out),
            torch.compile(lambda x, out: called(x, dtype=kind), backend="eager", fullgraph=True)(x, out),
            called(x, dtype=kind),
            called(x, out=torch.zeros(x.shape, dtype=dtype)),
        ):
            assert traced.dtype == dtype
            torch.testing.assert_close(traced.double(), wanted, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(out.double(), wanted, rtol=0, atol=0, equal_nan=True)
    with pytest.raises(Exception, match="shape"):
        torch.compile(lambda x, out: tail(x, out=out), backend="eager")(x[:1], out)


# ---- tensors that stand for the negative of their memory


def test_the_negative_bit_is_read():
    z = torch.complex(torch.linspace(-1, 1, 6), torch.linspace(2, 3, 6))
    x = z.conj().imag
    assert x.is_neg()
    y = torch.linspace(0, 1, 6)
    for _ in range(3):  # the short way for layouts that were here before, too
        assert torch.equal(as_written("x * 2 + y")(x, y), x * 2 + y)
        assert torch.equal(as_written("x * 2 + y")(x.resolve_neg(), y), x * 2 + y)
        assert torch.equal(NEGATED(x, y), x * 2 - y)
    again = torch.compile(lambda x, y: NEGATED(x, y), backend="eager", fullgraph=True)
    assert torch.equal(again(x, y), x * 2 - y)
    plain = torch.empty(6)
    assert torch.equal(NEGATED(x, y, out=plain), x * 2 - y)


NEGATED = as_written("x * 2 - y")


def test_the_negative_bit_is_not_written_over():
    z = torch.complex(torch.linspace(-1, 1, 6), torch.linspace(2, 3, 6))
    out, before = z.conj().imag, z.clone()
    x = torch.linspace(0, 1, 6)
    tail = epifuse.compile("x * 3")
    for target in (torch.empty(12)[::2], out):
        if target is out:
            with pytest.raises(ValueError, match="negative bit"):
                tail(x, out=target)
        else:
            tail(x, out=target)
    assert torch.equal(z, before)
    assert not torch.equal(torch.view_as_real(z), torch.view_as_real(z.conj().resolve_conj()))
    with pytest.raises((ValueError, TypeError)):
        tail(z.conj())
