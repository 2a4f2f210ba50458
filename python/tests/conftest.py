"""Shared by the tests of the Python package: they run against the installed package, or the one that PYTHONPATH
names."""

import atexit
import logging
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

# The cache of the tests is never the user's.
os.environ.setdefault("EPIFUSE_CACHE", "off")
# Nor does Inductor find what another run compiled: with another release of PyTorch, or with operators that have changed.
if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="epifuse-inductor-")
    atexit.register(shutil.rmtree, os.environ["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault(
    "XLA_PYTHON_CLIENT_PREALLOCATE", "false"
)  # JAX would take most of the GPU's memory from the other tests
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))  # level2.py, kernelbench.py
sys.path.insert(0, str(ROOT / "python/tests/support"))


def no_gpu():
    """Why no test can run on a GPU here, or None."""
    import epifuse

    report = epifuse.doctor()
    return None if report["devices"] else f"no GPU: {'; '.join(report['problems']) or 'the driver lists none'}"


def pytest_collection_modifyitems(items):
    why = None
    for item in items:
        if "gpu" in pathlib.Path(str(item.fspath)).parent.name:
            why = why or no_gpu() or "found"
            if why != "found":
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(autouse=True)
def nothing_falls_back(request):
    """Every graph goes through Inductor, unless its test says otherwise (the mark `falls_back`) or asks for eager PyTorch;
    and the package warns of nothing."""
    import epifuse

    _forget_reports()  # of other tests: only the last 256 are kept
    kept = _Kept(logging.WARNING)
    log = logging.getLogger("epifuse")
    log.addHandler(kept)
    yield
    log.removeHandler(kept)
    if request.node.get_closest_marker("falls_back"):
        return
    assert not kept.messages
    for report in epifuse.reports():
        if report.producers != "inductor":
            from epifuse import _torch_backend

            assert report.why_eager == _torch_backend.ASKED_FOR, report


def _forget_reports():
    if "epifuse._torch_backend" in sys.modules:
        sys.modules["epifuse._torch_backend"].REPORTS.clear()


class _Kept(logging.Handler):
    """What was logged."""

    def __init__(self, level):
        super().__init__(level)
        self.messages = []

    def emit(self, record):
        self.messages.append(self.format(record))
