"""Random chains against NumPy: each is built twice, as text for EpiFuse and as a function of f64 arrays."""

import numpy as np
import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import strategies as st  # noqa: E402

import epifuse  # noqa: E402


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# name: how many arguments, and the definition in f64. All are smooth or exact at the values drawn, so that errors stay
# small.
OPERATIONS = {
    "add": (2, np.add),
    "sub": (2, np.subtract),
    "mul": (2, np.multiply),
    "minimum": (2, np.minimum),
    "maximum": (2, np.maximum),
    "abs": (1, np.abs),
    "neg": (1, np.negative),
    "tanh": (1, np.tanh),
    "sigmoid": (1, sigmoid),
    "relu": (1, lambda x: np.maximum(x, 0)),
    "silu": (1, lambda x: x * sigmoid(x)),
    "square": (1, np.square),
    "sin": (1, np.sin),
    "cos": (1, np.cos),
    "hardtanh": (1, lambda x: np.clip(x, -1, 1)),
    "softsign": (1, lambda x: x / (1 + np.abs(x))),
    "leaky_relu": (1, lambda x: np.where(x > 0, x, 0.01 * x)),
    "expm1": (1, lambda x: np.expm1(np.minimum(x, 4))),
}
REDUCTIONS = {
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
    "softmax": lambda x, axis, keepdims: (
        np.exp(x - x.max(axis, keepdims=True)) / np.exp(x - x.max(axis, keepdims=True)).sum(axis, keepdims=True)
    ),
}
SHAPES = [(3, 4, 5), (4, 5), (5,), (4, 1), (1, 5), (3, 1, 1), (1,), ()]


@st.composite
def chains(draw):
    """(text, function of a dictionary of arrays, names and shapes of operands)."""
    names = {"x": SHAPES[0]} | {
        name: draw(st.sampled_from(SHAPES)) for name in draw(st.lists(st.sampled_from("abc"), max_size=3, unique=True))
    }
    values = list(names)
    statements, steps = [], []
    for i in range(draw(st.integers(1, 8))):
        name = draw(st.sampled_from(sorted(OPERATIONS)))
        arity, function = OPERATIONS[name]
        arguments = [draw(st.sampled_from(values[-4:])) for _ in range(arity)]
        written = arguments[0] if name != "expm1" else f"minimum({arguments[0]}, 4)"
        statements.append(f"v{i} = {name}({', '.join([written, *arguments[1:]])})")
        steps.append((f"v{i}", function, arguments))
        values.append(f"v{i}")
    last = values[-1]
    reduction = draw(st.none() | st.sampled_from(sorted(REDUCTIONS)))
    if reduction:  # over whole rows of everything, so that one kernel can have it
        statements.append(
            f"last = {reduction}({last} + x, axis=-1{'' if reduction == 'softmax' else ', keepdim=true'})"
        )
        steps.append(("last", lambda a, b: REDUCTIONS[reduction](a + b, axis=-1, keepdims=True), [last, "x"]))
        last = "last"
    text = f"input {', '.join(names)}; {'; '.join(statements)}; {last} * 0.5 + x"

    def evaluate(arrays):
        known = dict(arrays)
        for name, function, arguments in steps:
            known[name] = function(*(known[argument] for argument in arguments))
        return known[last] * 0.5 + known["x"]

    return text, evaluate, names


TOLERANCES = {np.float64: 1e-9, np.float32: 2e-4, np.float16: 6e-3}


@hypothesis.settings(max_examples=150, deadline=None, print_blob=True)
@hypothesis.given(chains(), st.sampled_from(sorted(TOLERANCES, key=str)), st.integers(0, 2**32 - 1), st.booleans())
def test_random_chains(chain, dtype, seed, turned):
    text, evaluate, names = chain
    random = np.random.default_rng(seed)
    arrays = {name: random.uniform(-2, 2, shape).astype(dtype) for name, shape in names.items()}
    if turned:
        arrays = {name: np.asfortranarray(array) for name, array in arrays.items()}
    exact = evaluate({name: array.astype(np.float64) for name, array in arrays.items()})
    hypothesis.assume(np.abs(exact).max() < 1e3)
    found = epifuse.compile(text)(**arrays)
    assert found.shape == exact.shape
    scale = max(1.0, np.abs(exact).max())
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype] * scale)
