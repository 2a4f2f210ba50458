"""A share of PyTorch's own table of operations over the graph backend: see graphs/op_db.py."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torch.testing._internal.common_methods_invocations", reason="PyTorch without its tests")

from epifuse import _aten  # noqa: E402
from graphs import compare, op_db  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
PARTS = 12


def check(ops, most, compiles=False):
    with torch.no_grad():
        counts, defects, _ = op_db.run(ops, most=most, told=print, compiles=compiles and compare.has_nvrtc())
    assert not defects, "\n".join(defects)
    return sum((one["right"] for one in counts.values()))


def names_of_rows():
    return {overload.overloadpacket.__name__ for overload in _aten.ROWS}


def test_operations_that_a_chain_has():
    """Every operation of the table in ROWS, with its first samples of every type."""
    ours = [op for op in op_db.op_db if op.name in names_of_rows() and not op.variant_test_name]
    assert len(ours) > 60
    assert check(ours, most=2) > 500


@pytest.mark.parametrize("part", range(2))
def test_other_operations(part):
    """In contexts, so that many become kernels, which NVRTC compiles."""
    check([op for op in op_db.op_db[part::PARTS] if op.name not in names_of_rows()], most=1, compiles=True)
