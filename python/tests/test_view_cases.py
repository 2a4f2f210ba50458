"""Some drawn cases of each operation of views beside PyTorch. support/view_cases.py draws any number of them as a command."""

import json
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("hypothesis")

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import view_cases  # noqa: E402

import epifuse  # noqa: E402


@pytest.mark.parametrize("operation", view_cases.OPERATIONS)
def test_agrees_with_pytorch(operation):
    outcomes, failure = view_cases.run(operation, 60, seed=27)
    assert failure is None, failure
    refused = sum(count for name, count in outcomes.items() if name.startswith("refused"))  # others agree, if not gradients
    assert refused < sum(outcomes.values()) / 2


# What drawn cases found: extents of one, whose reshapes do not undo each other, and windows of which none holds an element.
ONCE_FAILED = {
    "pixel_shuffle": ("tanh(pixel_shuffle(relu(x), 2))", lambda x: torch.pixel_shuffle(x.relu(), 2).tanh(), (1, 4, 1, 2)),
    "avg_pool3d": (
        "avg_pool3d(x, (2, 2, 1), (1, 1, 2), (1, 0, 0), ceil_mode=true, count_include_pad=true)",
        lambda x: torch.nn.functional.avg_pool3d(x, (2, 2, 1), (1, 1, 2), (1, 0, 0), True, True),
        (1, 1, 2, 3, 1),
    ),
}


@pytest.mark.parametrize("name", ONCE_FAILED)
def test_gradients_that_once_failed(name):
    text, function, shape = ONCE_FAILED[name]
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    want = torch.autograd.grad(function(x).square().sum(), x)[0]
    found = torch.autograd.grad(epifuse.compile(text)(x).square().sum(), x)[0]
    torch.testing.assert_close(found, want)


def test_the_report():
    """What `./dev reports views` has written: so many cases, and none that differs."""
    report = json.loads((pathlib.Path(__file__).parents[2] / "tests" / "reports" / "view-cases.json").read_text())
    assert report["cases"] >= 20_000 and report["emitted"]["cases"] >= 2_000 and report["emitted"]["gradients"] >= 500
    assert not report["failures"] and not report["emitted"]["failures"] and report["emitted"]["refused"] == 0
