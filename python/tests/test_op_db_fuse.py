"""A share of what support/op_db.py and support/numpy_functions.py do in full: PyTorch's own table of operations, and
NumPy's functions, over @epifuse.fuse; and random functions of a few operations. Each attempt is right, untraceable or an
error; EPIFUSE_TEST_SEED draws a share again."""

import os
import pathlib
import sys
import warnings

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))

SEED = int(os.environ.get("EPIFUSE_TEST_SEED", 20261124))


def check(report, least_right):
    print(f"EPIFUSE_TEST_SEED={SEED}", dict(report.counts))
    assert not report.failures, f"EPIFUSE_TEST_SEED={SEED}:\n" + "\n".join(report.failures[:20])
    assert report.counts["right"] >= least_right, "hardly anything was traced"


def test_pytorchs_table_of_operations():
    pytest.importorskip("torch", reason="PyTorch is not installed")
    import op_db

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(op_db.run(SEED, most_samples=2, most_types=2), 400)


def test_numpys_functions():
    import numpy_functions

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(numpy_functions.run(SEED, draws=15), 200)


@pytest.mark.parametrize("name", ["Torch", "NumPy"])
def test_compositions(name):
    if name == "Torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    import compositions

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(compositions.run(getattr(compositions, name)(), SEED, 1000), 200)


def test_an_error_names_what_was_called():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import wording

    names = wording.called_by(lambda: torch.softmax(torch.zeros(2, 3), 0) + torch.zeros(3).tan())
    assert {"softmax", "tan"} <= names
    assert not wording.misnamed("the results of 'softmax' (axis=0) and 'add' are both broadcast back", names | {"__add__"})
    assert not wording.misnamed("torch.tan is not an operation (it has 'tanh'): compute it before", names)
    assert "amax" in wording.misnamed("'amax' reduces a dimension without elements", names)


def test_a_crash_is_a_finding():
    import faulthandler
    import signal

    import watched

    def judge(item):
        if item == 2:
            watched.note("the second")
            faulthandler.disable()  # pytest's would print a stack of this death into the log, as of one that nobody meant
            os.kill(os.getpid(), signal.SIGSEGV)
        return item * 10

    found = list(watched.each([1, 2, 3], judge))
    assert found == [(1, 10, ""), (2, None, "the process died of SIGSEGV at the second"), (3, 30, "")]


def test_the_comparison_sees_what_is_wrong():
    """The harness itself: a value, a shape, a value for an error, an obscure error."""
    import numpy as np
    from agreement import ERROR, RIGHT, UNTRACEABLE, WRONG, attempt
    from numpy_functions import to_numpy

    x = np.arange(6, dtype=np.float32)

    def outcome(function, reference):
        return attempt(function, reference, [x], to_numpy)[0]

    def raises(problem):
        raise problem

    assert outcome(lambda x: x * 2, lambda: x * 2) == RIGHT
    assert outcome(lambda x: x * 2, lambda: x * 2.001) == WRONG
    assert outcome(lambda x: x > 2, lambda: x >= 2) == WRONG
    assert outcome(lambda x: x * 2, lambda: (x * 2)[None]) == WRONG
    assert outcome(lambda x: x * 2, lambda: raises(ValueError())) == WRONG
    assert outcome(lambda x: raises(KeyError(1)), lambda: x * 2) == WRONG
    assert outcome(lambda x: raises(ValueError("no")), lambda: x * 2) == ERROR
    assert outcome(lambda x: x[[0, 1]], lambda: x[[0, 1]]) == UNTRACEABLE
