"""Windows of poolings and factors of images that are made larger, as the library has them. Used by the rows of ATen's
operations and of PyTorch's functions; knows no library of tensors."""

import functools
import math
import struct

from ._ops import Unsupported

MOST = 64  # elements of a window that is taken apart


def listed(given, count):
    many = list(given) if isinstance(given, (list, tuple)) else [given]
    return many * count if len(many) == 1 else many


def count_along(extent, size, stride, dilation, padding, ceil_mode):
    """How many windows stand along a dimension. With ceil_mode one more, if it begins within the input and ends beyond
    the padding."""
    room = extent + 2 * padding - dilation * (size - 1) - 1
    count = room // stride + 1
    return count + 1 if ceil_mode and room % stride and count * stride < extent + padding else count


class Windows:
    """The windows along the last dimensions, of these extents. Unsupported where no chain has them."""

    def __init__(self, extents, size, stride, padding=0, dilation=1, ceil_mode=False):
        rank = len(extents)
        self.extents, self.size = list(extents), listed(size, rank)
        self.stride = listed(stride, rank) if stride not in (None, (), []) else self.size
        self.padding, self.dilation = listed(padding, rank), listed(dilation, rank)
        if any(type(one) is not int for one in self.extents):
            raise Unsupported("its windows are of extents that are symbols")
        self._reach = [by * (size - 1) for by, size in zip(self.dilation, self.size)]
        self.is_open = bool(ceil_mode) and any(map(self._has_another, range(rank)))

    def _has_another(self, i):
        """Whether ceil_mode adds a window."""
        along = self.extents[i], self.size[i], self.stride[i], self.dilation[i], self.padding[i]
        return count_along(*along, True) > count_along(*along, False)

    def _are_parts(self):
        """Whether the windows are the input, each element once."""
        whole = all(extent % size == 0 for extent, size in zip(self.extents, self.size))
        return whole and self.size == self.stride and set(self.dilation) == {1} and set(self.padding) == {0}

    @property
    def overlap(self):
        return any(far >= step for far, step in zip(self._reach, self.stride))

    def largest(self, c, value):
        rank = len(self.size)
        if math.prod(self.size) > MOST and self._are_parts():
            return c.emit(f"adaptive_max_pool{rank}d", value, self._parts())
        return c.emit(
            f"max_pool{rank}d", value, self.size, self.stride, self.padding, self.dilation, ceil_mode=self.is_open
        )

    def mean(self, c, value, divisor=None, count_include_pad=True):
        rank = len(self.size)
        if math.prod(self.size) > MOST and divisor is None and self._are_parts():
            return c.emit(f"adaptive_avg_pool{rank}d", value, self._parts())
        more = {} if divisor is None else {"divisor_override": divisor}
        if any(self.padding):
            more |= {"padding": self.padding, "count_include_pad": bool(count_include_pad)}
        return c.emit(f"avg_pool{rank}d", value, self.size, self.stride, ceil_mode=self.is_open, **more)

    def _parts(self):
        return [extent // size for extent, size in zip(self.extents, self.size)]


def parts(extents, sizes):
    """The sizes of an adaptive pooling's result, of which None stands for the extent."""
    sizes = [extent if size is None else size for extent, size in zip(extents, listed(sizes, len(extents)))]
    if any(type(one) is not int for one in (*extents, *sizes)):
        raise Unsupported("its windows are of extents that are symbols")
    if any(size < 1 or extent % size for extent, size in zip(extents, sizes)):
        raise Unsupported("its windows are of several sizes")
    return sizes


# ---- nearest neighbours


def _f32(number):
    return struct.unpack("f", struct.pack("f", number))[0]


@functools.lru_cache
def _repeats_each(extent, factor, offset):
    """Whether PyTorch, which multiplies positions by a float, finds each element so often."""
    step = _f32(1 / factor)
    return all(int(_f32((place + offset) * step)) == place // factor for place in range(extent * factor))


def factors(shape, size, scale_factor, mode):
    """How often F.interpolate repeats each element, by dimension behind the first two; None where that is no answer."""
    offset = {"nearest": 0.0, "nearest-exact": 0.5}.get(mode)
    extents = list(shape)[2:]
    if offset is None or len(shape) not in (3, 4, 5) or (size is None) == (scale_factor is None):
        return None
    if any(type(one) is not int or one == 0 for one in shape):
        return None
    given = listed(size if scale_factor is None else scale_factor, len(extents))
    if len(given) != len(extents) or any(type(one) not in (int, float) for one in given):
        return None
    made = [one / extent if scale_factor is None else one for one, extent in zip(given, extents)]
    if any(one < 1 or one != int(one) for one in made):
        return None
    made = list(map(int, made))
    return made if all(_repeats_each(extent, by, offset) for extent, by in zip(extents, made)) else None
