"""Some drawn cases of each operation of views beside PyTorch. support/view_cases.py draws any number of them as a command."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("hypothesis")

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import view_cases  # noqa: E402


@pytest.mark.parametrize("operation", view_cases.OPERATIONS)
def test_agrees_with_pytorch(operation):
    outcomes, failure = view_cases.run(operation, 60, seed=27)
    assert failure is None, failure
    assert outcomes["forward"] + outcomes["gradient"] > sum(outcomes.values()) / 2
