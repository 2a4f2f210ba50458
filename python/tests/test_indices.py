"""What is read at indices: chains, traced functions and graphs of torch.compile, against PyTorch itself."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402

import epifuse  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def ids(high, *shape, dtype=torch.int64, low=0):
    return torch.randint(low, high, shape, dtype=dtype)


# ---- chains

CHAINS = [
    ("index_select(x, 0, i)", lambda x, i: torch.index_select(x, 0, i), (7, 5), (9,)),
    ("index_select(x, -1, i) * 2", lambda x, i: torch.index_select(x, -1, i) * 2, (3, 7), (9,)),
    ("embedding(i, x)", lambda x, i: F.embedding(i, x), (7, 8), (2, 3)),
    ("take(x, i, 1)", lambda x, i: x[:, i], (2, 7, 3), (4, 2)),
    ("gather(x, 1, i)", lambda x, i: torch.gather(x, 1, i), (4, 7, 3), (3, 9, 2)),
    ("softmax(take(x, i), -1)", lambda x, i: F.softmax(x[i], -1), (7, 9), (5,)),
]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("chain, function, shape, of_indices", CHAINS, ids=[one[0] for one in CHAINS])
def test_chains_read_as_pytorch_does(chain, function, shape, of_indices, dtype):
    x, i = torch.randn(shape), ids(7, *of_indices, dtype=dtype)
    torch.testing.assert_close(epifuse.compile(chain)(x=x, i=i), function(x, i.long()))


def test_random_selections_agree_with_numpy():
    rng = np.random.default_rng(5)
    for _ in range(300):
        rank = rng.integers(1, 4)
        shape = tuple(rng.integers(1, 6, rank))
        axis = int(rng.integers(-rank, rank))
        index = rng.integers(-shape[axis], shape[axis], tuple(rng.integers(1, 5, rng.integers(0, 3))))
        x = rng.standard_normal(shape, np.float32)
        found = epifuse.compile(f"take(x, i, {axis})")(x=x, i=index)
        np.testing.assert_array_equal(found, np.take(x, index, axis))


def test_what_is_out_of_range_is_an_error_on_the_cpu():
    x, i = torch.randn(3, 2), torch.tensor([0, 3])
    with pytest.raises(ValueError, match="'embedding' is out of range: operand 'i' holds 3"):
        epifuse.compile("embedding(i, x)")(x=x, i=i)


# ---- results at indices


def store(chain, cache, **operands):
    """The cache after the chain has written into it."""
    cache = cache.clone()
    assert epifuse.compile(chain)(cache=cache, out=cache, **operands) is cache
    return cache


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_index_copy_is_pytorchs(dim, dtype):
    cache = torch.randn(7, 6, 8, dtype=dtype)
    slots = torch.randperm(cache.shape[dim])[:4]
    x = torch.randn([4 if d == dim % 3 else extent for d, extent in enumerate(cache.shape)])
    found = store(f"index_copy(cache, {dim}, i, x * 2)", cache, i=slots, x=x)
    torch.testing.assert_close(found, torch.index_copy(cache, dim, slots, (x * 2).to(dtype)), rtol=0, atol=0)


def test_slots_that_are_out_of_range_are_not_written():
    cache, x = torch.zeros(3, 2), torch.ones(4, 2)
    found = store("index_copy(cache, 0, i, x)", cache, i=torch.tensor([-1, 1, 3, 1 << 40]), x=x)
    assert found.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_keys_go_into_a_paged_cache_with_their_scales():
    tokens, heads, head, slots = 5, 3, 8, torch.tensor([6, 0, -1, 9, 2])
    keys = torch.zeros(10, heads, head, dtype=torch.float8_e4m3fn)
    scales = torch.zeros(10, heads, 1)
    x = torch.randn(tokens, heads, head)
    chain = "input x, keys, scales, i; q, s = quantize(x, f8e4m3); return {}"
    q, s = epifuse.compile(chain.replace("keys, scales, i", "").replace("x, ;", "x;").format("q, s"))(x)
    epifuse.compile(chain.format("index_copy(keys, 0, i, q), index_copy(scales, 0, i, s)"))(
        x, keys, scales, slots, out=(keys, scales)
    )
    written = slots >= 0
    codes = keys.view(torch.uint8)  # the oldest PyTorch reads no float8 at indices
    assert torch.equal(codes[slots[written]], q.view(torch.uint8)[written])
    assert torch.equal(scales[slots[written]], s[written])
    untouched = [row for row in range(10) if row not in slots.tolist()]
    assert not codes[untouched].any() and not scales[untouched].any()


def test_a_result_at_indices_needs_the_tensor_that_it_writes_into():
    cache, i, x = torch.zeros(3, 2), torch.tensor([0]), torch.ones(1, 2)
    with pytest.raises(ValueError, match="must be the memory of operand 'cache'"):
        epifuse.compile("index_copy(cache, 0, i, x)")(cache=cache, i=i, x=x)

    @epifuse.fuse
    def put(cache, i, x):
        return torch.index_copy(cache, 0, i, x * 3)

    put(cache, i, x, out=cache)
    assert cache.tolist() == [[3, 3], [0, 0], [0, 0]]


# ---- fused functions


def test_fused_functions_read_at_indices():
    x, i, k = torch.randn(7, 8), ids(7, 5), ids(8, 7, 2)
    functions = [
        (lambda x, i: F.embedding(i, x) * 2, i),
        (lambda x, i: F.layer_norm(F.embedding(i, x), (8,)), i),
        (lambda x, i: torch.index_select(x, 0, i).relu(), i),
        (lambda x, i: x.index_select(dim=0, index=i) + 1, i),
        (lambda x, i: x[i] - 1, i - 7),
        (lambda x, i: x[:, i] * 3, ids(8, 4)),
        (lambda x, i: x[..., i] * 3, ids(8, 4)),
        (lambda x, i: torch.gather(x, 1, i) + 1, k),
        (lambda x, i: x.gather(-1, i).sigmoid(), k),
        (lambda x, i: x.t()[:, i] * 2, i),
    ]
    for function, index in functions:
        torch.testing.assert_close(epifuse.fuse(function)(x, index), function(x, index))


def test_fused_functions_have_classes():
    @epifuse.fuse
    def smoothed(i, weight):
        return F.one_hot(i, 6) * 0.9 * weight + 0.1

    i, weight = ids(6, 4, 3), torch.randn(6)
    torch.testing.assert_close(smoothed(i, weight), F.one_hot(i, 6) * 0.9 * weight + 0.1)


def test_fused_functions_refuse_other_indices():
    x = torch.randn(4, 4)
    with pytest.raises(TypeError, match="missing a required argument: 'num_classes'"):
        epifuse.fuse(lambda i: F.one_hot(i) * 1.0)(ids(3, 2))
    with pytest.raises(TypeError, match="an index that is a tensor beside slices and numbers"):
        epifuse.fuse(lambda x, i: x[1:, i] * 2)(x, ids(4, 2))
    with pytest.raises(Exception, match="of integers"):
        epifuse.fuse(lambda x, i: x[i + 1] * 2)(x, ids(2, 2))


# ---- graphs


def compiled(function, *inputs, producers="eager", dynamic=None):
    with torch.no_grad():
        want = function(*inputs)
        run = torch.compile(function, backend="epifuse", dynamic=dynamic, options={"producers": producers})
        found = run(*inputs)
    torch.testing.assert_close(found, want, rtol=1e-4, atol=2e-5)
    assert found.stride() == want.stride()
    report = epifuse.reports()[-1]
    assert report.producers == producers and not report.fallback, report
    return report, run


GRAPHS = [
    ("embedding", lambda i, w, p: F.embedding(i, w) + p, ((5, 3), (9, 8), (3, 8))),
    ("embedding and norm", lambda i, w, p: F.layer_norm(F.embedding(i, w) + p, (8,)), ((5, 3), (9, 8), (3, 8))),
    ("index_select", lambda i, w, p: torch.index_select(w, 0, i).relu() + p, ((3,), (9, 8), (3, 8))),
    ("gather", lambda i, w, p: torch.gather(w, 1, i) * p, ((4, 5), (6, 9), (4, 5))),
    ("index", lambda i, w, p: w[i] * 2 + p, ((5, 3), (9, 8), (3, 8))),
    ("index of columns", lambda i, w, p: w[:, i].tanh() + p, ((3,), (8, 9), (8, 3))),
]


@pytest.mark.parametrize("producers", ["eager", "inductor"])
@pytest.mark.parametrize("name, function, shapes", GRAPHS, ids=[one[0] for one in GRAPHS])
def test_graphs_read_at_indices_in_one_kernel(name, function, shapes, producers):
    of_index, of_table, of_other = shapes
    report, _ = compiled(function, ids(9, *of_index), torch.randn(of_table), torch.randn(of_other), producers=producers)
    assert len(report.kernels) == 1 and not report.left, report


def test_negative_indices_count_from_the_end_between_brackets():
    report, _ = compiled(lambda i, w: w[i] * 2, ids(0, 6, low=-5), torch.randn(5, 8))
    assert len(report.kernels) == 1


def test_rotary_embeddings_at_positions():
    def halves(x):
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)

    def rotary(q, cos, sin, positions):
        cos, sin = cos[positions], sin[positions]
        return q * cos + halves(q) * sin

    inputs = torch.randn(2, 4, 6, 8), torch.randn(20, 8), torch.randn(20, 8), ids(20, 6)
    report, _ = compiled(rotary, *inputs)
    assert len(report.kernels) == 1 and not report.left, report


def test_any_number_of_words():
    def function(i, w):
        return F.embedding(i, w) * 2 + 1

    i, w = ids(9, 5, 3), torch.randn(9, 8)
    torch._dynamo.mark_dynamic(i, 0)
    report, run = compiled(function, i, w)
    count = len(epifuse.reports())
    more = ids(9, 11, 3)
    with torch.no_grad():
        torch.testing.assert_close(run(more, w), function(more, w))
    assert len(epifuse.reports()) == count and len(report.kernels) == 1


def test_what_is_computed_is_not_read_at_indices():
    report, _ = compiled(lambda i, w: (w * 2).exp()[i + 1] * 3, ids(4, 5), torch.randn(6, 8))
    assert len(report.kernels) > 1 or report.left, report


def test_a_lookup_alone_stays_pytorchs():
    report, _ = compiled(lambda i, w: F.embedding(i, w), ids(4, 5), torch.randn(6, 8))
    assert not report.kernels and "embedding" in str(report.left), report


def test_embeddings_train():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.norm = torch.nn.Embedding(9, 8), torch.nn.LayerNorm(8)

        def forward(self, i):
            return self.norm(self.words(i) * 2 + 1)

    model, i = Model(), ids(9, 4, 3)
    want = torch.autograd.grad(model(i).square().sum(), list(model.parameters()))
    found = torch.autograd.grad(
        torch.compile(model, backend="epifuse")(i).square().sum(), list(model.parameters())
    )
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
