"""The element types as ml_dtypes, NumPy and PyTorch have them: every code read, and numbers of every size stored."""

import numpy as np
import pytest

import epifuse

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")

SMALL = {name: getattr(ml_dtypes, name) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")}
SMALL["float16"] = np.float16
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]
LARGEST = {"float8_e4m3fn": 448, "float8_e5m2": 57344}


def every_code(dtype):
    bits = np.dtype(dtype).itemsize * 8
    return np.arange(2**bits, dtype=f"uint{bits}").view(dtype)


def dense_floats():
    """Floats of every exponent and sign, with the neighbours of every number of 16 bits."""
    steps = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32)
    edges = np.arange(0, 2**32, 2**15, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([steps, edges - np.uint32(1), edges, edges + np.uint32(1)]).view(np.float32)


@pytest.mark.parametrize("name", SMALL)
def test_every_code_is_read(name):
    codes = every_code(SMALL[name])
    found = epifuse.compile("x")(codes, dtype="f32")
    np.testing.assert_array_equal(found, codes.astype(np.float32))


def expected(name, values):
    """What ml_dtypes makes of them but for what the guide says: fp8 saturates, and a zero is the smallest scale."""
    with np.errstate(all="ignore"):
        if name in LARGEST:
            values = np.where(np.isnan(values), values, np.clip(values, -LARGEST[name], LARGEST[name]))
        if name == "float8_e8m0fnu":
            values = np.where(values == 0, np.float32(2.0**-127), values)
        return values.astype(SMALL[name])


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_numbers_of_every_size_are_stored(name, wide):
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = dense_floats().astype(wide)
    found = epifuse.compile("x")(values, dtype=name)
    assert found.dtype == SMALL[name]
    wanted = expected(name, values)
    is_nan = np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), is_nan)
    bits = f"uint{found.dtype.itemsize * 8}"
    np.testing.assert_array_equal(found.view(bits)[~is_nan], wanted.view(bits)[~is_nan])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_read_and_stored(dtype):
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.min + 1, 0, 1, 77, limits.max - 1, limits.max], dtype)
    found = epifuse.compile("x")(values)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_floats_become_the_nearest_integers(dtype):
    limits = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = dense_floats().astype(np.float64)
    wanted = np.clip(np.rint(np.where(np.isnan(values), 0, values)), limits.min, limits.max).astype(dtype)
    for wide in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            found = epifuse.compile("x")(values.astype(wide), dtype=np.dtype(dtype).name)
        np.testing.assert_array_equal(found, wanted)


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for name in ("int16", "uint16", "uint32", "float8_e8m0fnu"):
        dtype = getattr(torch, name)
        values = torch.tensor([1.0, 2.0, 4.0, 64.0]).to(dtype)
        found = epifuse.compile("x * 2")(values)
        assert found.dtype == dtype
        assert found.to(torch.float32).tolist() == [2, 4, 8, 128]
        out = torch.empty(4, dtype=dtype)
        epifuse.compile("x * 4")(values, out=out)
        assert out.to(torch.float32).tolist() == [4, 8, 16, 256]


def test_names_of_others_in_a_chain():
    x = np.array([1.25, 3.0], np.float32)
    for ours, theirs in (("f16", "half"), ("bf16", "bfloat16"), ("u16", "uint16"), ("f8e8m0", "e8m0"), ("i32", "int")):
        found = epifuse.compile(f"cast(x, {theirs})")(x)
        np.testing.assert_array_equal(found, epifuse.compile(f"cast(x, {ours})")(x))
    assert float(epifuse.compile("half + int")(half=x, int=x)[0]) == 2.5  # no words of the language
