"""What memory the operands of a case are: strides, what a view touches, and the traffic of its 32-byte sectors, computed
without a GPU. For the benchmarks of this folder."""
import dataclasses
import math

SECTOR = 32  # bytes: what a GPU's L2 cache fetches from memory at least
RUNS_AT_ONCE = 2**24  # of the enumeration below: bounds its memory


def dense(shape):
    """Strides, in elements, of a row-major tensor."""
    return strides_in_order(shape, range(len(shape)))


def channels_last(shape):
    """As torch.channels_last: N, spatial dimensions, C."""
    return strides_in_order(shape, [0, *range(2, len(shape)), 1])


def column_major(shape, leading):
    """A matrix whose columns lie `leading` elements apart."""
    if leading < shape[0]:
        raise ValueError(f"column_major: columns of {shape[0]} elements lie {leading} apart; they must not overlap")
    return (1, leading)


def strides_in_order(shape, outermost_first):
    strides, step = [0] * len(shape), 1
    for d in reversed(list(outermost_first)):
        strides[d], step = step, step * shape[d]
    return tuple(strides)


@dataclasses.dataclass(frozen=True)
class Layout:
    """A view of elements of `itemsize` bytes that begins `offset` elements behind an address aligned to 256 bytes."""
    shape: tuple
    strides: tuple
    itemsize: int
    offset: int = 0

    def storage_elements(self):
        """Elements from the beginning of the memory to the end of the view."""
        return self.offset + 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides))

    def elements(self):
        """Distinct elements: what is broadcast counts once."""
        return math.prod(n for n, s in zip(self.shape, self.strides) if s != 0)

    def bytes(self):
        return self.elements() * self.itemsize

    def sectors(self):
        """Distinct sectors that hold an element of the view."""
        import numpy as np  # here, since cases are listed where there is no NumPy

        dims, run = nested_dims(self)
        starts = math.prod(n for n, _ in dims)
        total, last = 0, -1  # the last sector that was counted
        for first in range(0, starts, RUNS_AT_ONCE):
            begins = self.offset * self.itemsize + offsets(dims, first, min(first + RUNS_AT_ONCE, starts))
            low, high = begins // SECTOR, (begins + run - 1) // SECTOR
            # Runs ascend, so a sector that was counted already can only be the last one of the run before.
            before = np.concatenate(([last], high[:-1]))
            total += int((high - np.maximum(low, before + 1) + 1).sum())
            last = int(high[-1])
        return total

    def traffic(self):
        """Bytes that cross the memory bus when each sector crosses it once."""
        return self.sectors() * SECTOR


def nested_dims(layout):
    """Dimensions as (extent, bytes apart), outermost first, each apart by more than what is inside, and the bytes of the
    runs without a gap that they lead to."""
    run, dims = layout.itemsize, []
    present = [(s * layout.itemsize, n) for n, s in zip(layout.shape, layout.strides) if n > 1 and s != 0]
    for step, extent in sorted(present):
        inside = run + sum((n - 1) * s for n, s in dims)
        if step < inside:
            raise ValueError(f"sectors of {layout}: its elements overlap, or dimensions interleave, which is not counted")
        if not dims and step == run:
            run *= extent
        else:
            dims.insert(0, (extent, step))
    return dims, run


def offsets(dims, first, last):
    """Byte offsets of the runs first … last - 1 of row-major dimensions."""
    import numpy as np

    index, total = np.arange(first, last, dtype=np.int64), np.zeros(last - first, dtype=np.int64)
    for extent, step in reversed(dims):
        index, position = np.divmod(index, extent)
        total += position * step
    return total


def merged(shape, strides_of_operands):
    """The iteration space as people index it by hand: dimensions in the order of the first operand's memory, outermost
    first, neighbours joined where every operand steps through both alike. (extents, strides by operand)."""
    order = sorted((d for d, n in enumerate(shape) if n > 1), key=lambda d: -strides_of_operands[0][d])
    extents, rows = [], []  # rows: per dimension, the strides of all operands
    for d in order:
        steps = [strides[d] for strides in strides_of_operands]
        if extents and all(outer == inner * shape[d] for outer, inner in zip(rows[-1], steps)):
            extents[-1] *= shape[d]
            rows[-1] = steps
        else:
            extents.append(shape[d])
            rows.append(steps)
    return extents, [[row[k] for row in rows] for k in range(len(strides_of_operands))]


def broadcast_strides(shape, strides, result_shape):
    """The operand's strides in the result's dimensions: 0 where it is broadcast."""
    missing = len(result_shape) - len(shape)
    inner = [0 if n == 1 and m != 1 else s for n, s, m in zip(shape, strides, result_shape[missing:])]
    return tuple([0] * missing + inner)
