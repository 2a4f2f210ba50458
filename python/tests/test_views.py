"""Views against PyTorch: chains as text that Python evaluates too, functions that are traced, and shapes alone."""

import os
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import torch.nn.functional as F  # noqa: E402
from tails import as_written  # noqa: E402

import epifuse  # noqa: E402
from epifuse import _views  # noqa: E402

FUNCTIONS = {
    name: getattr(torch, name)
    for name in "narrow select chunk split flip permute transpose unsqueeze squeeze reshape maximum".split()
}
FUNCTIONS["expand"] = lambda x, sizes: x.expand(sizes)


def evaluated(text, tensors):
    return eval(text, {"__builtins__": {}, **FUNCTIONS, **tensors})


def item(rng, extent):
    kind = rng.random()
    if kind < 0.2:
        return str(rng.randrange(-extent, extent))
    at = [str(rng.randint(-extent - 1, extent + 1)) if rng.random() < 0.3 else "" for _ in range(2)]
    return ":".join(at) + rng.choice(["", "", f":{rng.randint(1, 3)}"])


def view(rng, text, shape):
    rank = len(shape)
    dim = rng.randrange(-rank, rank) if rank else 0
    choices = [lambda: f"unsqueeze({text}, {rng.randint(-rank - 1, rank)})", lambda: f"{text}[None]"]
    if rank:
        count, of_last = rng.randint(1, rank), rng.random() < 0.3
        items = [item(rng, one) if one else ":" for one in (shape[-count:] if of_last else shape[:count])]
        if rng.random() < 0.3:
            items.insert(rng.randint(0, len(items)), "None")
        if of_last:
            items = ["...", *items]
        start = rng.randint(0, shape[dim])
        number = rng.randint(1, 4)
        order = rng.sample(range(rank), rank)
        choices += [
            lambda: f"{text}[{', '.join(items)}]",
            lambda: f"{text}[{', '.join(items)}]",
            lambda: f"narrow({text}, {dim}, {start}, {rng.randint(0, shape[dim] - start)})",
            lambda: f"chunk({text}, {number}, {dim})[0]",
            lambda: f"split({text}, {number}, {dim})[{rng.randrange(max(-(-shape[dim] // number), 1))}]",
            lambda: f"flip({text}, ({dim},))",
            lambda: f"permute({text}, ({', '.join(map(str, order))},))",
            lambda: f"transpose({text}, {dim}, {rng.randrange(rank)})",
            lambda: f"expand({text}, ({rng.randint(1, 3)}, {', '.join('-1' for _ in shape)}))",
            lambda: f"reshape({text}, (-1,))" if 0 not in shape else f"{text}[...]",
        ]
        if shape[dim]:
            choices.append(lambda: f"select({text}, {dim}, {rng.randrange(-shape[dim], shape[dim])})")
        if 1 in shape:
            choices.append(lambda: f"squeeze({text}, {list(shape).index(1)})")
    return rng.choice(choices)()


def drawn(rng):
    """The text of a chain, its operands, and what PyTorch says of it."""
    x = torch.randint(-9, 10, [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]).float()
    tensors, text, value = {"x": x}, "x", x
    for _ in range(rng.randint(1, 5)):
        if rng.random() < 0.6 and value.dim() < 7:
            text = view(rng, text, tuple(value.shape))
        else:
            name = f"y{len(tensors)}"
            shape = [1 if rng.random() < 0.2 else one for one in value.shape][rng.choice([0, 0, 1]) :]
            tensors[name] = torch.randint(-9, 10, shape).float()
            text = rng.choice(["({} + {})", "({} - {})", "maximum({}, {})"]).format(text, name)
        value = evaluated(text, tensors)
    return text, tensors, value


def test_random_chains_agree_with_pytorch():
    seed = int(os.environ.get("EPIFUSE_TEST_SEED", "27"))
    rng = random.Random(seed)
    torch.manual_seed(seed)
    refused = 0
    for _ in range(4000):
        text, tensors, wanted = drawn(rng)
        tail = as_written(text)
        try:
            found = tail(**{name: tensors[name] for name in tail.inputs})
        except ValueError as problem:
            assert "would copy" in str(problem), (text, seed)
            refused += 1
            continue
        assert found.shape == wanted.shape and torch.equal(found, wanted), (text, seed)
    assert refused < 400


def test_shapes_of_views():
    rng = random.Random(28)
    for _ in range(2000):
        shape = tuple(rng.randint(0, 5) for _ in range(rng.randint(1, 4)))
        text = view(rng, "_", shape)
        if not text.startswith(("select", "unsqueeze", "flip")):  # written as an index
            assert _views.shape_of(text, shape) == tuple(evaluated(text, {"_": torch.empty(shape)}).shape), text


X = torch.arange(48.0).reshape(2, 3, 8)
TRACED = {
    "halves": lambda x: torch.sigmoid(x[..., :4]) * x[..., 4:],
    "steps, an element and None": lambda x: x[:, None, 1, ::2] * 2,
    "chunk": lambda x: x.chunk(2, -1)[0] - torch.chunk(x, 2, dim=-1)[1],
    "chunk, unpacked": lambda x: (lambda a, b: a * b)(*x.chunk(2, -1)),
    "split": lambda x: x.split(2, 2)[1] + x.split(2, 2)[3],
    "transpose": lambda x: x.transpose(0, 2) + 1,
    "permute": lambda x: torch.permute(x, (2, 0, 1)) * 2,
    "flip": lambda x: torch.flip(x, (0, 2)) - x,
    "narrow": lambda x: x.narrow(2, 1, 4) * x.narrow(2, 3, 4),
    "unfold": lambda x: x.unfold(2, 3, 2).sum(-1) * 2,
    "select": lambda x: x.select(1, 2) * 2,
    "behind a reduction": lambda x: (x - x.mean(-1, keepdim=True)).transpose(0, 1),
    "methods of dimensions": lambda x: x.permute(2, 0, 1) * 2 + x.permute((2, 0, 1)).flip(0),
    "flips of several": lambda x: x.flip(0, 1) + x.flip((1, 2)) + x.flip(0),
    "sizes": lambda x: x.reshape(2, 24) + x.view(2, -1) + torch.reshape(x, (2, 24)),
    "expand and squeeze": lambda x: x[:, :1].expand(-1, 3, 8) + x[:1, :1].squeeze(0) + x[:, :1].squeeze()[:, None],
    "split by sizes": lambda x: (lambda a, b, c: a * b - c[..., :2])(*x.split([2, 2, 4], -1)),
    "unbind": lambda x: (lambda a, b, c: a * b - c)(*x.unbind(1)),
    "rotary": lambda x: x * 0.5 + torch.cat((-x[..., 4:], x[..., :4]), -1) * 0.25,
    "rotary of pairs": lambda x: torch.stack((x[..., ::2] - x[..., 1::2], x[..., 1::2] + x[..., ::2]), -1).flatten(-2),
    "stack": lambda x: torch.stack([x, x * 2, x.sin()], 1),
    "cat and work behind it": lambda x: torch.relu(torch.cat((x, -x), 1)) + 1,
    "cat of types": lambda x: torch.cat((x > 3, x < 9), 0) | torch.cat((x > 30, x.half() > 7), 0),
    "glu": lambda x: F.glu(x) + 1,
    "max_pool1d": lambda x: F.max_pool1d(torch.sin(x), 2) + torch.max_pool1d(x, 2),
    "max_pool2d": lambda x: F.max_pool2d(torch.sin(x[None]), (3, 2), (1, 2)),
    "max_pool2d, ceil_mode": lambda x: F.max_pool2d(torch.sin(x[None]), (3, 2), ceil_mode=True),
    "avg_pool1d": lambda x: F.avg_pool1d(torch.sin(x), 4, 2),
    "padded pools": lambda x: F.max_pool1d(x - 60, 3, 2, 1) + F.avg_pool1d(x, 3, 2, 1) + F.avg_pool1d(x, 3, 2, 1, False, False),
    "padded pools with ceil_mode": lambda x: F.avg_pool1d(x, 3, 2, 1, True) + F.avg_pool1d(x, 3, 2, 1, True, False),
    "pools to the end": lambda x: F.max_pool1d(x, 3, 2, ceil_mode=True) + F.avg_pool1d(x, 3, 2, ceil_mode=True),
    "pad": lambda x: F.pad(torch.sin(x), (1, 2, -1, 1), value=0.5) + 1,
    "roll": lambda x: torch.roll(x, 3, -1) + x.roll((1, -1), (0, 1)),
    "cat of several sizes": lambda x: torch.cat((x * 2, x[:, 1:], x[:, :1].exp()), 1) + 1,
    "a sum of what is joined": lambda x: torch.cat((x * 2, x[..., :3]), -1).sum(-1),
    "avg_pool2d": lambda x: F.avg_pool2d(torch.sin(x[None]), (3, 2), divisor_override=5),
    "lp_pool1d": lambda x: F.lp_pool1d(x + 1, 2, 4),
    "adaptive pooling": lambda x: F.adaptive_avg_pool1d(x, 4) - F.adaptive_max_pool1d(x, 4),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(torch.sin(x), (None, 2)),
    "interpolate": lambda x: F.interpolate(torch.sin(x), scale_factor=3) + F.interpolate(x, 24, mode="nearest-exact"),
    "pixels": lambda x: F.pixel_shuffle(x.reshape(1, 12, 2, 2), 2) * 2 + F.pixel_unshuffle(x.reshape(1, 3, 4, 4), 1),
    "argmax": lambda x: torch.sin(x).argmax(-1) + 1,
    "argmin of all": lambda x: torch.argmin(torch.cos(x)),
    "positions of max": lambda x: torch.max(torch.sin(x), 1).indices * 2,
    "triangles": lambda x: torch.tril(x.sin()) + x.cos().triu(1),
    "triangle of truths": lambda x: (x > 3).tril(-1) | (x < 9),
    "count_nonzero": lambda x: torch.count_nonzero(x > 7, -1),
}


@pytest.mark.parametrize("name", TRACED)
def test_traced_functions(name):
    wanted = TRACED[name](X)
    found = epifuse.fuse(TRACED[name])(X)
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted)


NUMPY = {
    "an index": lambda x: x[..., ::-1] * x[:, :1],
    "transpose": lambda x: np.transpose(x) + x.transpose() + x.transpose(2, 1, 0) + np.transpose(x, (2, 1, 0)),
    "swapaxes": lambda x: np.swapaxes(x, 0, 2) * x.swapaxes(2, 0),
    "flip": lambda x: np.flip(x) + np.flip(x, 1) + np.flip(x, (0, 2)),
    "concatenate": lambda x: np.concatenate((-x[..., 4:], x[..., :4]), -1) * 2,
    "stack": lambda x: np.stack([x, x * 2], 1),
    "roll": lambda x: np.roll(x, 2, 1) + np.roll(x, (1, 3), (0, 2)),
    "argmax": lambda x: np.argmax(np.sin(x), 1) + 1,
    "argmin": lambda x: np.sin(x).argmin(axis=0, keepdims=True),
    "argmax of all": lambda x: np.sin(x).argmax(),
    "triangles": lambda x: np.tril(x * 2) + np.triu(x, 1),
    "count_nonzero": lambda x: np.count_nonzero(x > 7, axis=1),
}


@pytest.mark.parametrize("name", NUMPY)
def test_traced_numpy(name):
    array = X.numpy()
    wanted, found = NUMPY[name](array), epifuse.fuse(NUMPY[name])(array)
    assert found.dtype == np.asarray(wanted).dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda x: F.lp_pool1d(x, 2, 3, ceil_mode=True), "'lp_pool1d': its last windows reach beyond the input"),
        (lambda x: torch.roll(x, 1), "'roll' of all elements as one line"),
        (lambda x: F.pad(x, (1, 1), mode="reflect"), "'pad' with mode='reflect'"),
        (lambda x: F.adaptive_avg_pool1d(x, 3), "'adaptive_avg_pool1d': its windows are of several sizes"),
        (lambda x: F.interpolate(x, 12), "'interpolate' of floats: a chain has nearest neighbours, by whole factors"),
        (lambda x: F.max_pool1d(x, 2, return_indices=True)[1], "max_pool1d_with_indices is not an operation"),
        (lambda x: torch.cat((x, 2.0), 1), "'torch.cat'|expected Tensor"),
        (lambda x: torch.cat(x, 1), "'torch.cat'|tuple of Tensors|must be tuple"),
    ],
)
def test_what_no_chain_has_is_named(function, text):
    with pytest.raises(TypeError, match=text):
        epifuse.fuse(function)(X)


def test_an_error_of_a_chain_names_the_call():
    def function(a, b):
        return torch.expm1(a), torch.max(a, 1).values, b

    with pytest.raises(ValueError, match="Compute 'max' in a launch of its own"):
        epifuse.fuse(function)(torch.ones(4, 7), torch.ones(3, 1, 7))
    with pytest.raises(ValueError, match="Compute 'max' in a launch of its own"):
        epifuse.fuse(function).plan(torch.ones(4, 7), torch.ones(3, 1, 7))


def test_an_index_that_is_a_mask_is_refused():
    with pytest.raises((TypeError, ValueError, RuntimeError), match="of operands of these types"):
        epifuse.fuse(lambda x: x[x > 0] * 2)(X)


def test_a_slice_before_the_call_has_a_gradient():
    x = X.clone().requires_grad_()
    epifuse.compile("y * 2")(x[..., :4]).sum().backward()
    assert (x.grad[..., :4] == 2).all() and (x.grad[..., 4:] == 0).all()


def test_gradients_of_views_that_keep_all_elements():
    x, y = (X.clone().requires_grad_() for _ in range(2))
    weight = torch.arange(48.0).reshape(8, 3, 2)
    (epifuse.compile("flip(transpose(x, 0, 2), 0) * 2")(x) * weight).sum().backward()
    (y.transpose(0, 2).flip(0) * 2 * weight).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
