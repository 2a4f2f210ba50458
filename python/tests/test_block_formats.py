"""Quantised blocks beside their definitions in NumPy and ml_dtypes, bit by bit, on the CPU device."""

import numpy as np
import pytest
from tails import as_written

import epifuse

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")

E4M3, E5M2, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu
FORMATS = {"f8e4m3": (E4M3, 448.0, 8), "f8e5m2": (E5M2, 57344.0, 15)}


def hard_rows(rows=64, columns=512):
    """Blocks of sizes from 2**-126 to 2**100, zeros, and powers of two."""
    random = np.random.default_rng(3)
    x = random.standard_normal((rows, columns)).astype(np.float32)
    x *= np.exp2(random.integers(-126, 100, (rows, columns // 32))).astype(np.float32).repeat(32, axis=1)
    x[3] = 0
    x[4] = 448 * np.exp2(random.integers(-100, 100, columns // 32)).astype(np.float32).repeat(32)
    x[5] = np.nextafter(x[4], np.float32(np.inf))
    return x


def mx(x, dtype, rounding):
    kind, most, power = FORMATS[dtype]
    blocks = x.reshape(x.shape[0], -1, 32).astype(np.float64)
    largest = np.abs(blocks).max(-1)
    with np.errstate(divide="ignore"):
        exponent = np.ceil(np.log2(largest / most)) if rounding == "up" else np.floor(np.log2(largest)) - power
    exponent = np.maximum(exponent, -127)
    if rounding == "up":  # log2 of what is just above a power of two is that power's
        exponent += np.ldexp(most, exponent.astype(int)) < largest
    scale = np.ldexp(1.0, exponent.astype(int))
    values = np.clip(blocks / scale[..., None], -most, most).astype(np.float32).astype(kind)
    return values.reshape(x.shape), scale.astype(np.float32).astype(E8M0)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("rounding", ["up", "floor"])
def test_mxfp8(dtype, rounding):
    x = hard_rows()
    q, s = epifuse.compile(f"q, s = mx_quantize(x, {dtype}, '{rounding}'); return q, s")(x)
    values, scales = mx(x, dtype, rounding)
    assert q.dtype == values.dtype and s.dtype == scales.dtype
    np.testing.assert_array_equal(s.view(np.uint8), scales.view(np.uint8))
    np.testing.assert_array_equal(q.view(np.uint8), values.view(np.uint8))
    back = as_written("dequantize(q, s, 32)")(q, s)
    wanted = q.astype(np.float32) * s.astype(np.float32).repeat(32, axis=1)
    np.testing.assert_array_equal(back, wanted)


def test_what_precedes_is_in_the_kernel():
    a, b = hard_rows()[:8], np.float32(0.5) * hard_rows()[8:16]
    q, s, h = as_written("h = maximum(a, b); q, s = mx_quantize(h, f8e4m3); return q, s, h")(a, b)
    values, scales = mx(np.maximum(a, b), "f8e4m3", "up")
    np.testing.assert_array_equal(h, np.maximum(a, b))
    np.testing.assert_array_equal(q.view(np.uint8), values.view(np.uint8))
    np.testing.assert_array_equal(s.view(np.uint8), scales.view(np.uint8))


@pytest.mark.parametrize("rows,blocks", [(256, 4), (5, 3), (130, 1)])
def test_scales_in_tiles(rows, blocks):
    x = hard_rows(256)[:rows, : 32 * blocks]
    s, tiles = epifuse.compile("s = mx_quantize(x, f8e4m3)[1]; return s, scale_tiles(s)")(x)
    assert tiles.shape == (-(-rows // 128), -(-blocks // 4), 32, 4, 4)
    wanted = np.zeros(tiles.size, np.uint8)  # what pads the tiles is 0
    for i in range(rows):
        for j in range(blocks):
            tile = i // 128 * tiles.shape[1] + j // 4
            wanted[tile * 512 + i % 32 * 16 + i % 128 // 32 * 4 + j % 4] = s.view(np.uint8)[i, j]
    np.testing.assert_array_equal(tiles.reshape(-1).view(np.uint8), wanted)


@pytest.mark.parametrize("block", [0, 128])
@pytest.mark.parametrize("dtype,kind,most", [("f8e4m3", E4M3, 448), ("i8", np.int8, 127)])
def test_float_scales(block, dtype, kind, most):
    x = hard_rows()
    q, s = epifuse.compile(f"q, s = quantize(x, {dtype}, {block}); return q, s")(x)
    blocks = x.reshape(x.shape[0], -1, block or x.shape[1])
    scales = np.maximum(np.abs(blocks).max(-1), np.float32(1e-4)) / np.float32(most)
    scaled = np.clip(blocks * (np.float32(1) / scales)[..., None], -most, most)
    values = (np.rint(scaled) if dtype == "i8" else scaled).astype(kind).reshape(x.shape)
    np.testing.assert_array_equal(s, scales)
    np.testing.assert_array_equal(q.view(np.uint8), values.view(np.uint8))
