"""Types and arrays as frameworks call and make them: what the extension module leaves to Python because it is not on
the fast path."""

import re

# Ours: NumPy's (ml_dtypes'), PyTorch's, CuPy's and JAX's name.
NAMES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e8m0": "float8_e8m0fnu",
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "u16": "uint16",
    "i32": "int32",
    "u32": "uint32",
    "i64": "int64",
    "bool": "bool",
}
# Elements of 4 bits, which no framework counts one by one: arrays hold bytes of two.
PACKED = ("f4e2m1", "i4", "u4")
_OURS = {theirs: ours for ours, theirs in NAMES.items()} | {name: name for name in (*NAMES, *PACKED)}
_OURS |= {"float4_e2m1fn_x2": "f4e2m1", "int4": "i4", "uint4": "u4"}

_SPEC = re.compile(r"(\w+)\[([\d,\s]*)\](:nhwc)?$")


def dtype_name(dtype):
    """Our name of a type given as "f16", "float16", torch.float16, numpy.float16 or jax.numpy.float16."""
    text = str(dtype).removeprefix("torch.")
    if text not in _OURS:
        text = getattr(dtype, "name", None) or getattr(dtype, "__name__", text)
    if text not in _OURS:
        raise ValueError(
            f"{dtype!r} is not a type of EpiFuse; expected one of {', '.join((*NAMES, *PACKED))}, or a framework's name of them"
        )
    return _OURS[text]


def dtype_names(dtype, count):
    """The `dtype` of a call (one for all results, or a sequence with one per result) as the extension takes it."""
    if isinstance(dtype, (list, tuple)):
        return [None if one is None else dtype_name(one) for one in dtype]
    return [dtype_name(dtype)] * count


def spec(text: str) -> tuple:
    """An array that is only planned for: "f16[1024,8192]" as (type, shape, strides or None). Row-major, or channels-last:
    "f16[8,64,56,56]:nhwc"."""
    found = _SPEC.match(text.strip())
    if not found or found[1] not in (*NAMES, *PACKED):
        raise ValueError(f"{text!r} does not describe an array: expected a type and a shape, such as f16[1024,8192]")
    shape = [int(extent) for extent in found[2].split(",") if extent.strip()]
    if not found[3]:
        return found[1], shape, None
    if len(shape) != 4:
        raise ValueError(f"{text!r}: ':nhwc' is for the shape [N,C,H,W]")
    _, c, h, w = shape
    return found[1], shape, [c * h * w, 1, w * c, c]


class Packed:
    """An array of uint8 as the elements of 4 bits that it holds: two in a byte, the first in the lower half. Chains see
    its last dimension twice as long.

        tail(epifuse.Packed(codes, "i4"), scales)

    `dtype` is "f4e2m1", "i4" or "u4". PyTorch's float4_e2m1fn_x2 needs no Packed."""

    __slots__ = ("bytes", "dtype")

    def __init__(self, bytes, dtype):
        if dtype_name(dtype) not in PACKED:
            raise ValueError(f"Packed holds elements of {', '.join(PACKED)}, found {dtype!r}")
        self.bytes, self.dtype = bytes, dtype_name(dtype)


def numpy_dtype(name):
    import numpy

    try:
        return numpy.dtype(NAMES[name])
    except TypeError:
        import ml_dtypes  # NumPy has no bfloat16 and no fp8 of its own

        return numpy.dtype(getattr(ml_dtypes, NAMES[name]))


def allocate(family, like, shape, order, dtype):
    """A new array of `like`'s framework and device, uninitialised. `order`: its dimensions as they lie in memory,
    outermost first."""
    dense = [shape[dimension] for dimension in order]
    places = sorted(range(len(order)), key=order.__getitem__)
    if family == "torch":
        import torch

        return torch.empty(dense, dtype=getattr(torch, NAMES[dtype]), device=like.device).permute(places)
    if family == "numpy":
        import numpy

        return numpy.empty(dense, numpy_dtype(dtype)).transpose(places)
    if family == "cupy":
        import cupy

        with like.device:
            return cupy.empty(dense, numpy_dtype(dtype)).transpose(places)
    if family == "jax":
        import jax.numpy

        # A buffer of its own, which nobody has seen: the one moment at which a JAX array may be written.
        return jax.numpy.zeros(shape, numpy_dtype(dtype), device=like.device).block_until_ready()
    if hasattr(like, "__array_namespace__"):
        namespace = like.__array_namespace__()
        return namespace.empty(tuple(shape), dtype=getattr(namespace, NAMES[dtype]), device=like.device)
    raise TypeError(f"EpiFuse cannot make a {type(like).__module__}.{type(like).__qualname__}: pass out=")
