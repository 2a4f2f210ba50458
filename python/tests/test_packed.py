"""Tensors of 4-bit elements, two to a byte, beside ml_dtypes and NumPy, on the CPU device."""

import numpy as np
import pytest
from tails import as_written

import epifuse

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")

TYPES = {"f4e2m1": ml_dtypes.float4_e2m1fn, "i4": ml_dtypes.int4, "u4": ml_dtypes.uint4}
E4M3 = ml_dtypes.float8_e4m3fn


def packed(codes):
    """Codes of 4 bits, two of which become a byte."""
    codes = codes.reshape(*codes.shape[:-1], -1, 2)
    return codes[..., 0] | codes[..., 1] << 4


def codes_of(values, dtype):
    return values.astype(TYPES[dtype]).view(np.uint8) & 15


def numbers(data, dtype):
    codes = np.stack([data & 15, data >> 4], -1).reshape(*data.shape[:-1], -1)
    return codes.view(TYPES[dtype]).astype(np.float32)


LIMITS = {"i4": (-8, 7), "u4": (0, 15)}


def expected_codes(x, dtype):
    """Ties to even, saturation; NaN is 0 of integers, and -0 of f4e2m1."""
    numbers = np.nan_to_num(x, nan=0)
    if dtype == "f4e2m1":
        return np.where(np.isnan(x), np.uint8(8), codes_of(np.clip(numbers, -1e3, 1e3).astype(np.float32), dtype))
    return np.clip(np.rint(numbers), *LIMITS[dtype]).astype(np.int8).view(np.uint8) & 15


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("source", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_every_number_of_16_bits_becomes_the_nearest(source, dtype):
    x = np.arange(2**16, dtype=np.uint16).view(source)
    found = epifuse.compile(f"cast(x, {dtype})")(x)
    assert found.dtype == np.uint8 and found.shape == (2**15,)
    np.testing.assert_array_equal(found, packed(expected_codes(x.astype(np.float32), dtype)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("source", [np.float32, np.float64], ids=["f32", "f64"])
def test_numbers_at_and_beside_what_decides(source, dtype):
    """A tie goes to the even code; the next number of the source's type on either side does not."""
    least, most = LIMITS.get(dtype, (-6, 6))
    ties = np.arange(4 * (least - 1), 4 * (most + 1) + 1) / source(4)
    x = np.concatenate([ties, np.nextafter(ties, -np.inf, dtype=source), np.nextafter(ties, np.inf, dtype=source)])
    x = np.resize(x, (len(x) + 31) // 32 * 32).astype(source)
    if dtype == "f4e2m1":  # by the distance to each of its numbers; of two the one whose code is even
        all_numbers = numbers(np.arange(16, dtype=np.uint8).reshape(16, 1) * 17, dtype)[:, 0].astype(np.float64)
        distances = np.abs(x.astype(np.float64)[:, None] - all_numbers[None])
        odd = np.arange(16) % 2 + np.where(np.signbit(all_numbers)[None] != np.signbit(x)[:, None], 4, 0)
        wanted = np.array([min(range(16), key=lambda code: (d[code], o[code])) for d, o in zip(distances, odd)], np.uint8)
    else:
        wanted = expected_codes(x, dtype)
    np.testing.assert_array_equal(epifuse.compile(f"cast(x, {dtype})")(x), packed(wanted))


@pytest.mark.parametrize("dtype", TYPES)
def test_packed_is_read_as_the_numbers_that_it_holds(dtype):
    data = np.arange(256, dtype=np.uint8).reshape(8, 32)
    x = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
    found = as_written("q * 2 + x")(epifuse.Packed(data, dtype), x)
    np.testing.assert_array_equal(found, numbers(data, dtype) * 2 + x)


def test_out_may_be_packed():
    x, out = np.linspace(-6, 6, 32, dtype=np.float32), np.zeros(16, np.uint8)
    epifuse.compile("x * 1")(x, out=epifuse.Packed(out, "i4"))
    np.testing.assert_array_equal(out, epifuse.compile("cast(x, i4)")(x))


def test_weights_of_4_bits_by_group():
    random = np.random.default_rng(2)
    data, s = random.integers(0, 256, (16, 64), np.uint8), random.uniform(0.5, 2, (16, 4)).astype(np.float32)
    found = as_written("dequantize(q, s, 32)")(epifuse.Packed(data, "i4"), s)
    np.testing.assert_array_equal(found, numbers(data, "i4") * s.repeat(32, axis=1))


def test_int4_by_groups():
    x = np.random.default_rng(6).standard_normal((8, 64)).astype(np.float32)
    x[1, :32] = 0
    q, s = epifuse.compile("q, s = quantize(x, i4, 32); return q, s")(x)
    groups = x.reshape(8, 2, 32)
    scales = np.maximum(np.abs(groups).max(-1), np.float32(1e-4)) / np.float32(7)
    wanted = np.rint(groups * (np.float32(1) / scales)[..., None]).astype(np.int8).reshape(x.shape)
    np.testing.assert_array_equal(s, scales)
    np.testing.assert_array_equal(q, packed(wanted.view(np.uint8) & 15))


@pytest.mark.parametrize("columns", [16, 512])
def test_nvfp4(columns):
    x = np.random.default_rng(3).standard_normal((64, columns)).astype(np.float32)
    x[3] = 0
    x *= np.exp2(np.random.default_rng(4).integers(-12, 3, (64, 1))).astype(np.float32)
    scale = np.float32(448 * 6) / np.abs(x).max()
    q, s = as_written("q, s = nv_quantize(x, g); return q, s")(x, np.float32(scale).reshape(1))
    blocks = x.reshape(64, -1, 16)
    scales = (np.abs(blocks).max(-1) / np.float32(6) * scale).astype(E4M3)
    numeric = scales.astype(np.float32)[..., None]
    with np.errstate(divide="ignore"):
        inverse = np.where(numeric > 0, scale / numeric, np.float32(0))
    np.testing.assert_array_equal(s.view(np.uint8), scales.view(np.uint8))
    np.testing.assert_array_equal(q, packed(codes_of((blocks * inverse).reshape(x.shape), "f4e2m1")))
    back = as_written("dequantize(q, s, 16) / g")(epifuse.Packed(q, "f4e2m1"), s, np.float32(scale).reshape(1))
    # Half of the widest step, from 4 to 6, and what e4m3 takes from a scale.
    bound = np.abs(blocks).max(-1, keepdims=True) * (1 / 6 + 1 / 16) + 2.0**-9 / scale * 6
    assert (np.abs(back.reshape(blocks.shape) - blocks) <= bound).all()


def test_mxfp4_is_a_format_of_mx_quantize():
    x = np.random.default_rng(5).standard_normal((8, 64)).astype(np.float32)
    q, s = epifuse.compile("q, s = mx_quantize(x, f4e2m1); return q, s")(x)
    scales = s.astype(np.float32).repeat(32, axis=1)
    assert ((np.abs(x) / scales).max() <= 6) and q.shape == (8, 32)
    np.testing.assert_array_equal(q, packed(codes_of(x / scales, "f4e2m1")))


def test_pytorch_has_a_type_of_pairs():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this PyTorch has no float4_e2m1fn_x2")
    x = torch.linspace(-6, 6, 64).reshape(2, 32)
    q = epifuse.compile("cast(x, f4e2m1)")(x)
    assert q.dtype == torch.float4_e2m1fn_x2 and tuple(q.shape) == (2, 16)
    data = q.view(torch.uint8).numpy()
    np.testing.assert_array_equal(data, packed(codes_of(x.numpy(), "f4e2m1")))
    np.testing.assert_array_equal(epifuse.compile("q * 2")(q, dtype="f32").numpy(), numbers(data, "f4e2m1") * 2)
    i4 = epifuse.compile("cast(x, i4)")(x)
    assert i4.dtype == torch.uint8 and tuple(i4.shape) == (2, 16)
    doubled = epifuse.compile("q * 2")(epifuse.Packed(i4, "i4"), dtype="f32")
    np.testing.assert_array_equal(doubled.numpy(), numbers(i4.numpy(), "i4") * 2)


@pytest.mark.parametrize(
    "chain, operand, message",
    [
        (
            "q + 1",
            lambda: epifuse.Packed(np.zeros((4, 4), np.uint8), "i4"),
            "multiple of 16, found the shape \\[4, 8\\]",
        ),
        ("q + 1", lambda: epifuse.Packed(np.zeros((32, 16), np.uint8).T, "u4"), "dense in row-major order"),
        ("q + 1", lambda: epifuse.Packed(np.zeros((4, 16), np.int8), "u4"), "Packed of i8: it takes an array of uint8"),
        (
            "q[:, 1:]",
            lambda: epifuse.Packed(np.zeros((4, 16), np.uint8), "f4e2m1"),
            "reads single elements of operand 'q'",
        ),
        ("cast(q, i4)", lambda: np.zeros((4, 8), np.float32), "multiple of 16, found the shape \\[4, 8\\]"),
    ],
)
def test_what_is_refused(chain, operand, message):
    with pytest.raises((ValueError, epifuse.Error), match=message):
        epifuse.compile(chain)(operand())


def test_packed_is_of_a_packed_type():
    with pytest.raises(ValueError, match="f4e2m1, i4, u4, found 'i8'"):
        epifuse.Packed(np.zeros(16, np.uint8), "i8")
