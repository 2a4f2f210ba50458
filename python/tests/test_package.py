"""The package as it is installed: where it stands, what it links, what it declares."""

import importlib.metadata
import pathlib
import shutil
import subprocess

import pytest

import epifuse
from conftest import ROOT

FOLDER = pathlib.Path(epifuse.__file__).parent


def test_the_version_is_the_librarys():
    assert epifuse.__version__ == importlib.metadata.version("epifuse") == (ROOT / "VERSION").read_text().split()[0]


def test_it_has_types():
    if not (FOLDER / "_core.pyi").exists():
        pytest.skip("a build folder without its stubs (the target epifuse_stub)")
    assert (FOLDER / "py.typed").exists() and "class Launcher" in (FOLDER / "_core.pyi").read_text()


def test_pytorch_finds_the_backend_by_its_name():
    found = {point.name: point.value for point in importlib.metadata.entry_points(group="torch_dynamo_backends")}
    assert found["epifuse"] == "epifuse:backend"


def test_neither_driver_nor_compiler_is_linked():
    if shutil.which("ldd") is None:
        pytest.skip("no ldd here")
    linked = subprocess.run(["ldd", next(FOLDER.glob("_core*.so"))], capture_output=True, text=True, check=True).stdout
    assert "libstdc++" in linked and "cuda" not in linked and "nvrtc" not in linked


def test_what_is_missing_is_a_sentence():
    report = epifuse.doctor()
    if report["devices"]:
        pytest.skip("a GPU is here")
    assert report["problems"] and all(len(problem) > 20 for problem in report["problems"])


def test_every_public_name_is_documented():
    for name in epifuse.__all__:
        if name != "__version__":
            assert getattr(epifuse, name).__doc__, name
