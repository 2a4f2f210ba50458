"""Shared by the tests of the Python package: they run against the installed package, or the one that PYTHONPATH
names."""

import os
import pathlib
import sys

import pytest

# The cache of the tests is never the user's.
os.environ.setdefault("EPIFUSE_CACHE", "off")
os.environ.setdefault(
    "XLA_PYTHON_CLIENT_PREALLOCATE", "false"
)  # JAX would take most of the GPU's memory from the other tests
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))  # level2.py, kernelbench.py


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
