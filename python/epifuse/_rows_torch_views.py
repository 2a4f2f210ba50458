"""PyTorch's views, and what joins, pools, enlarges and counts, as rows of the table of _rows_torch.py. Used by
_libraries.py."""

from __future__ import annotations

import contextlib
import math

from . import _windows
from ._exact import EQUAL
from ._ops import Unsupported, Value
from ._rows import Const, Inert
from ._rows_torch import TABLE, everywhere
from ._views import index_text

_row = TABLE.add


# ---- views


@_row("Tensor.__getitem__")
def _indexed(c, input, key: Const):
    return c.view("{}" + index_text(key), input)


def listed(first, rest=()):
    """Dimensions or sizes, which are given one by one or as a list."""
    many = tuple(first) if isinstance(first, (list, tuple)) and not rest else (first, *rest)
    return "(" + ", ".join(map(str, many)) + ",)"


def _taken(text):
    """The row of a view whose dimensions or sizes a method takes one by one, too, and a function as a list."""

    def function(c, input, dims: Const):
        return c.view(text.format(listed(dims)), input)

    def method(c, input, *dims: Const):
        return c.view(text.format(listed(*dims[:1], dims[1:])), input)

    return function, method


_function, _method = _taken("permute({{}}, {})")
_row("torch.permute")(_function)
_row("Tensor.permute")(_method)


def _flipped(c, input, dims):
    """A tensor without dimensions is its own mirror image, whatever dims says."""
    return c.view(f"flip({{}}, {listed(dims)})", input) if dims and len(input.shape) else input


@_row("torch.flip")
def _flip(c, input, dims: Const):
    return _flipped(c, input, dims)


@_row("Tensor.flip")
def _flip_method(c, input, *dims: Const):
    return _flipped(c, input, dims[0] if dims and isinstance(dims[0], (list, tuple)) else dims)


_row("Tensor.expand")(_taken("expand({{}}, {})")[1])
_row("Tensor.reshape Tensor.view")(_taken("reshape({{}}, {})")[1])


@_row("torch.reshape")
def _reshape(c, input, shape: Const):
    return c.view(f"reshape({{}}, {listed(shape)})", input)


@everywhere("transpose swapaxes swapdims")
def _transpose(c, input, dim0: Const, dim1: Const):
    return c.view(f"transpose({{}}, {dim0}, {dim1})", input) if input.shape else input


@everywhere("t")
def _t(c, input):
    return c.view("transpose({}, 0, 1)", input) if len(input.shape) > 1 else input


@everywhere("narrow")
def _narrow(c, input, dim: Const, start: Const, length: Const):
    return c.view(f"narrow({{}}, {dim}, {start}, {length})", input)


@_row("Tensor.unfold")
def _unfold(c, input, dimension: Const, size: Const, step: Const):
    return c.view(f"unfold({{}}, {dimension}, {size}, {step})", input)


@everywhere("select")
def _select(c, input, dim: Const, index: Const):
    return c.view(f"select({{}}, {dim}, {index})", input)


@everywhere("chunk")
def _chunk(c, input, chunks: Const, dim: Const = 0):
    size = -(-input.shape[dim] // chunks)
    count = -(-input.shape[dim] // size) if size else chunks
    return tuple(c.view(f"chunk({{}}, {chunks}, {dim})[{i}]", input) for i in range(count))


@everywhere("split")
def _split(c, input, split_size_or_sections: Const, dim: Const = 0):
    size = split_size_or_sections
    if not isinstance(size, int):
        starts = [sum(size[:i]) for i in range(len(size))]
        return tuple(c.view(f"narrow({{}}, {dim}, {start}, {one})", input) for start, one in zip(starts, size))
    count = max(-(-input.shape[dim] // size), 1) if size else 1
    return tuple(c.view(f"split({{}}, {size}, {dim})[{i}]", input) for i in range(count))


@everywhere("unbind")
def _unbind(c, input, dim: Const = 0):
    return tuple(c.view(f"select({{}}, {dim}, {i})", input) for i in range(input.shape[dim]))


@everywhere("squeeze")
def _squeeze(c, input, dim: Const = None):
    rank = len(input.shape)
    given = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    for axis in sorted({one % rank for one in given} if rank else (), reverse=True):
        if input.shape[axis] == 1:
            shape = (*input.shape[:axis], *input.shape[axis + 1 :])
            input = c.view(f"squeeze({{}}, {axis})", input)
            input.shape = shape
    return input


# ---- joined tensors


def joined(c, name, tensors, dim):
    if not isinstance(tensors, (tuple, list)) or any(not isinstance(one, Value) for one in tensors):
        raise Unsupported(f"'{name}' of what is no list of tensors")
    if any(0 in one.shape for one in tensors):
        raise Unsupported(f"'{name}' of a tensor without elements")
    return c.emit("cat", tuple(tensors), dim) if len(tensors) > 1 else tensors[0]


@_row("torch.cat torch.concat torch.concatenate")
def _cat(c, tensors, dim: Const = 0):
    return joined(c, "cat", tensors, dim)


@_row("torch.stack")
def _stack(c, tensors, dim: Const = 0):
    return joined(c, "stack", stacked(c, "stack", tensors, dim), dim)


def stacked(c, name, tensors, dim):
    """The tensors with the dimension along which 'stack' joins them."""
    if not isinstance(tensors, (tuple, list)) or any(not isinstance(one, Value) for one in tensors):
        raise Unsupported(f"'{name}' of what is no list of tensors")
    planes = []
    for one in tensors:
        if one.shape == ():
            raise Unsupported(f"'{name}' of single elements")
        at = dim % (len(one.shape) + 1)
        planes.append(c.view(f"unsqueeze({{}}, {at})", one))
        planes[-1].shape = (*one.shape[:at], 1, *one.shape[at:])
    return planes


@_row("F.glu")
def _glu(c, input, dim: Const = -1):
    gates = [c.view(f"chunk({{}}, 2, {dim})[{i}]", input) for i in range(2)]
    return c.emit("mul", gates[0], c.emit("sigmoid", gates[1]))


@everywhere("roll")
def _roll(c, input, shifts: Const, dims: Const = ()):
    shifts, dims = (list(one) if isinstance(one, (list, tuple)) else [one] for one in (shifts, dims))
    if not dims or len(shifts) != len(dims):
        raise Unsupported("'roll' of all elements as one line")
    return c.emit("roll", input, shifts, dims)


@_row("F.pad")
def _pad(c, input, pad: Const, mode: Const = "constant", value: Const = None):
    if mode != "constant":
        raise Unsupported(f"'pad' with mode={mode!r}")
    return padded(c, input, pad, value or 0)


def padded(c, input, pad, value):
    if input.kind != "float" and not isinstance(value, (bool, int)):
        raise Unsupported(f"'pad' of integers with {value!r}")
    made = c.emit("pad", input, list(pad), value=value)
    return c.emit("cast", made, Value("bool")) if input.kind == "bool" else made


# ---- windows


@contextlib.contextmanager
def _named(name):
    try:
        yield
    except Unsupported as problem:
        raise Unsupported(f"'{name}': {problem}") from None


def _extents(name, input, rank):
    if len(input.shape) not in (rank + 1, rank + 2):
        raise Unsupported(f"'{name}' of {len(input.shape)} dimensions")
    return input.shape[-rank:]


def _max_pool(rank):
    name = f"max_pool{rank}d"

    def row(
        c,
        input,
        kernel_size: Const,
        stride: Const = None,
        padding: Const = 0,
        dilation: Const = 1,
        ceil_mode: Const = False,
        return_indices: Inert = False,
    ):
        with _named(name):
            extents = _extents(name, input, rank)
            return _windows.Windows(extents, kernel_size, stride, padding, dilation, ceil_mode).largest(c, input)

    def builtin(
        c,
        input,
        kernel_size: Const,
        stride: Const = (),
        padding: Const = 0,
        dilation: Const = 1,
        ceil_mode: Const = False,
    ):
        return row(c, input, kernel_size, stride, padding, dilation, ceil_mode)

    return row, builtin


def _avg_pool(rank):
    name = f"avg_pool{rank}d"

    def row(
        c,
        input,
        kernel_size: Const,
        stride: Const = None,
        padding: Const = 0,
        ceil_mode: Const = False,
        count_include_pad: Const = True,
        divisor_override: Const = None,
    ):
        with _named(name):
            windows = _windows.Windows(_extents(name, input, rank), kernel_size, stride, padding, 1, ceil_mode)
            return windows.mean(c, _floats(name, input), divisor_override, count_include_pad)

    def of_lines(
        c,
        input,
        kernel_size: Const,
        stride: Const = (),
        padding: Const = 0,
        ceil_mode: Const = False,
        count_include_pad: Const = True,
    ):
        return row(c, input, kernel_size, stride, padding, ceil_mode, count_include_pad)

    return of_lines if rank == 1 else row


def _floats(name, input):
    if input.kind != "float":
        raise Unsupported(f"'{name}' of integers")
    return input


def _lp_pool(rank):
    name = f"lp_pool{rank}d"

    def row(c, input, norm_type: Const, kernel_size: Const, stride: Const = None, ceil_mode: Const = False):
        with _named(name):
            windows = _windows.Windows(_extents(name, input, rank), kernel_size, stride, 0, 1, ceil_mode)
            last = {"ceil_mode": True} if windows.is_open else {}
            return c.emit(name, _floats(name, input), float(norm_type), windows.size, windows.stride, **last)

    return row


def _adaptive(kind, rank):
    name = f"adaptive_{kind}_pool{rank}d"

    def pooled(c, input, output_size):
        with _named(name):
            sizes = _windows.parts(_extents(name, input, rank), output_size)
            return c.emit(name, input if kind == "max" else _floats(name, input), sizes)

    def mean(c, input, output_size: Const):
        return pooled(c, input, output_size)

    def largest(c, input, output_size: Const, return_indices: Inert = False):
        return pooled(c, input, output_size)

    return largest if kind == "max" else mean


for _rank in (1, 2, 3):
    _function, _builtin = _max_pool(_rank)
    _row(f"F.max_pool{_rank}d")(_function)
    _row(f"torch.max_pool{_rank}d")(_builtin)
    _row(f"F.avg_pool{_rank}d")(_avg_pool(_rank))
    _row(f"F.adaptive_avg_pool{_rank}d")(_adaptive("avg", _rank))
    _row(f"F.adaptive_max_pool{_rank}d")(_adaptive("max", _rank))
    _row(f"F.lp_pool{_rank}d")(_lp_pool(_rank))


@_row("F.interpolate")
def _interpolate(
    c,
    input,
    size: Const = None,
    scale_factor: Const = None,
    mode: Const = "nearest",
    align_corners: Inert = None,
    recompute_scale_factor: Inert = None,
    antialias: Inert = False,
):
    factors = _windows.factors(input.shape, size, scale_factor, mode) if input.kind == "float" else None
    if factors is None:
        raise Unsupported("'interpolate' of floats: a chain has nearest neighbours, by whole factors")
    return c.emit(f"upsample_nearest{len(factors)}d", input, factors)


def _of_images(name, input):
    if len(input.shape) != 4:
        raise Unsupported(f"'{name}' of {len(input.shape)} dimensions: a chain has it of a batch of images")
    return input


@_row("F.pixel_shuffle")
def _pixel_shuffle(c, input, upscale_factor: Const):
    return c.emit("pixel_shuffle", _of_images("pixel_shuffle", input), upscale_factor)


@_row("F.pixel_unshuffle")
def _pixel_unshuffle(c, input, downscale_factor: Const):
    return c.emit("pixel_unshuffle", _of_images("pixel_unshuffle", input), downscale_factor)


# ---- positions


def position(c, name, input, dim, keepdim, called=None):
    """Of the extreme, the first of equals, as of values that are rounded to their type. `called`: what asks for it."""
    if input.kind != "float" and input.standing != EQUAL:
        raise Unsupported(
            f"positions among integers, by '{called or name}': a kernel computes in f32, which holds integers up to "
            "2**24"
        )
    if input.shape == ():
        raise Unsupported(f"the position of a single element, by '{called or name}'")
    shape = input.shape
    last = 0 if dim is None else shape[dim] - 1
    if input.dtype in ("f16", "bf16") and input.name not in c.inputs:
        input = c.emit("cast", input, Value(input.dtype))
    if dim is None:
        if keepdim:
            raise Unsupported(f"'{name}' of all elements that keeps their dimensions")
        last, dim = math.prod(shape) - 1, 0
        input = c.emit("flatten", input, 0, -1) if len(shape) > 1 else input
    made = c.emit(name, input, dim, keepdim=bool(keepdim))
    made.high = max(0, min(last, made.high))
    return made


def _extreme_at(name):
    def row(c, input, dim: Const = None, keepdim: Const = False):
        return position(c, name, input, dim, keepdim)

    return row


for _name in ("argmax", "argmin"):
    everywhere(_name)(_extreme_at(_name))


@everywhere("count_nonzero")
def _count_nonzero(c, input, dim: Const = None):
    if isinstance(dim, (list, tuple)) and not dim:
        raise Unsupported("'count_nonzero' over no dimensions")
    return counted(c, input, dim)


def counted(c, input, dim, keepdim=False):
    if input.kind != "float" and input.standing != EQUAL:
        raise Unsupported("'count_nonzero' of integers that f32 need not hold")
    found = c.emit("ne", input, 0)
    found.shape = input.shape
    axes = {} if dim is None or input.shape == () else {"axis": tuple(dim) if isinstance(dim, (list, tuple)) else dim}
    return c.emit("sum", found, **axes, keepdim=keepdim)


def triangle(c, name, input, diagonal):
    made = c.emit(name, input, diagonal)
    return c.emit("cast", made, Value("bool")) if input.kind == "bool" else made


def _triangle(name):
    def row(c, input, diagonal: Const = 0):
        return triangle(c, name, input, diagonal)

    return row


for _name in ("tril", "triu"):
    everywhere(_name)(_triangle(_name))
