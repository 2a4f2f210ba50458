"""The kernels of bench/view_kernels compute what their chains say: built by a C++ compiler behind the tests' CUDA shim, and run on the CPU.

Expected values come from the definitions, in double precision and element by element. Memory that a kernel must not read is NaN, and memory that it
must not write is looked at. EPIFUSE_CXX names the compiler; one without _Float16 skips the tests."""

import ctypes
import functools
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KERNELS = ROOT / "bench/view_kernels"
sys.path.insert(0, str(ROOT / "bench"))
import view_instructions

COMPILER = os.environ.get("EPIFUSE_CXX", "c++")
NAN, UNWRITTEN = 0x7E00, 0x5555  # bits of halves
NAMES = sorted(path.stem for path in KERNELS.glob("*.cu"))
SHUFFLES = ("embedding_layer_norm",)

HARNESS = """
#include "support/cuda_shim.hpp"
#include "halves.cuh"
template <class Params>
void run(void (*kernel)(Params), const void* given, const unsigned* grid, const unsigned* block) {
  using namespace epifuse::shim;
  Params params;
  std::memcpy(&params, given, sizeof params);
  grid_extent = {grid[0], grid[1], grid[2]};
  block_extent = {block[0], block[1], 1};
  for (block_index.z = 0; block_index.z < grid[2]; ++block_index.z)
    for (block_index.y = 0; block_index.y < grid[1]; ++block_index.y)
      for (block_index.x = 0; block_index.x < grid[0]; ++block_index.x)
        for (thread_index.y = 0; thread_index.y < block[1]; ++thread_index.y)
          for (thread_index.x = 0; thread_index.x < block[0]; ++thread_index.x) kernel(params);
}
"""
EACH = """
namespace source_{name} {{
#include "{name}.cu"
}}
extern "C" const char* launch_{name}(const void* params, const unsigned* grid, const unsigned* block) {{
  {launch}
}}
"""
PLAIN = "run(source_{name}::{name}, params, grid, block); return nullptr;"
# A grid of one dimension, whose threads wait for each other.
FIBERS = """return epifuse::shim::run_grid(source_{name}::{name}, {{grid[0], block[0], 1, 0}}, true, params,
                                 sizeof(source_{name}::Params));"""


def has_halves():
    program = "int main(int n, char**) { return static_cast<int>(static_cast<_Float16>(n)) - 1; }"
    with tempfile.TemporaryDirectory() as folder:
        command = [COMPILER, "-x", "c++", "-", "-o", f"{folder}/a.out"]
        try:
            return subprocess.run(command, input=program, text=True, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


@functools.cache
def library():
    text = HARNESS
    for name in NAMES:
        launch = (FIBERS if name in SHUFFLES else PLAIN).format(name=name)
        text += EACH.format(name=name, launch=launch)
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/kernels.so"
        command = [COMPILER, "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{ROOT / 'tests'}", f"-I{KERNELS}"]
        command += ["-x", "c++", "-", "-o", target, "-Wno-unknown-pragmas"]
        done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr)
        return ctypes.CDLL(target)


def of_bits(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def rounded(value):
    """The bits of the nearest half."""
    if math.isnan(value):
        return NAN
    try:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00


class Memory:
    """A tensor of halves, floats or indices: strides in elements, gaps between rows, and 64 elements around it that are nobody's."""

    CODES = {2: ctypes.c_uint16, 4: ctypes.c_float, 8: ctypes.c_int64}
    AROUND = 64

    def __init__(self, shape, strides, item=2, outside=NAN):
        self.shape, self.strides = shape, strides
        self.length = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
        count = self.length + 2 * self.AROUND
        self.buffer = ctypes.create_string_buffer(count * item + 16)
        skipped = -ctypes.addressof(self.buffer) % 16
        self.values = (self.CODES[item] * count).from_buffer(self.buffer, skipped)
        for i in range(count):
            self.values[i] = outside
        self.address = ctypes.addressof(self.values) + self.AROUND * item

    def place(self, at):
        return self.AROUND + sum(one * stride for one, stride in zip(at, self.strides))

    def __getitem__(self, at):
        return self.values[self.place(at)]

    def __setitem__(self, at, value):
        self.values[self.place(at)] = value

    def places(self):
        found = [()]
        for extent in self.shape:
            found = [(*one, i) for one in found for i in range(extent)]
        return found

    def filled(self, draw):
        for at in self.places():
            self[at] = draw()
        return self


def dense(shape):
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides)


def results(shape, strides=None):
    return Memory(shape, strides or dense(shape), outside=UNWRITTEN)


def launch(name, fields, grid, block):
    types = {int: ctypes.c_int, float: ctypes.c_float}
    kinds = [(f"f{n}", ctypes.c_void_p if isinstance(one, Memory) else types[type(one)]) for n, one in enumerate(fields)]
    params = type("Params", (ctypes.Structure,), {"_fields_": kinds})
    given = params(*[one.address if isinstance(one, Memory) else one for one in fields])
    function = getattr(library(), f"launch_{name}")
    function.restype = ctypes.c_char_p
    three, two = (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 2)(*block)
    problem = function(ctypes.byref(given), three, two)
    if problem:
        raise AssertionError(problem.decode())


@unittest.skipUnless(has_halves(), f"{COMPILER} has no _Float16")
class Kernels(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(27)

    def half(self):
        return rounded(self.random.gauss(0, 2))

    def compare(self, out, expected, ulps=1):
        """Each element is what `expected` says, to that many units in the last place; and nothing else was written."""
        written = set()
        for at in out.places():
            want, got = expected(*at), of_bits(out[at])
            written.add(out.place(at))
            if math.isnan(want):
                self.assertTrue(math.isnan(got), at)
                continue
            nearest = of_bits(rounded(want))
            if math.isinf(nearest) or ulps == 0:
                self.assertEqual(got, nearest, at)
            else:
                unit = 2.0 ** (max(math.frexp(want)[1], -13) - 11)
                self.assertLessEqual(abs(got - want), (ulps + 0.5) * unit, f"{at}: {got}, expected {want}")
        others = [i for i in range(len(out.values)) if i not in written]
        self.assertEqual({out.values[i] for i in others}, {UNWRITTEN})

    def max_pool2d(self, name):
        # Rows of 48 results in tiles of 4 vectors; 3 rows in tiles of 2; a seventh row of x that no window has.
        x = Memory((3, 7, 96), (800, 104, 1)).filled(self.half)
        x[(1, 2, 5)], x[(1, 3, 8)], x[(2, 0, 0)] = NAN, 0x7C00, 0xFC00
        out = results((3, 3, 48))
        launch(name, [x, out, 800, 104, 3, 6], (3, 2, 2), (4, 2))

        def expected(plane, row, column):
            seen = [of_bits(x[(plane, 2 * row + i, 2 * column + j)]) for i in (0, 1) for j in (0, 1)]
            return math.nan if any(map(math.isnan, seen)) else max(seen)

        self.compare(out, expected, ulps=0)

    def test_max_pool2d(self):
        self.max_pool2d("max_pool2d")

    def test_max_pool2d_packed(self):
        self.max_pool2d("max_pool2d_packed")

    def avg_pool2d(self, rows, vectors, grid, block):
        columns = 8 * vectors
        strides = (rows * (columns + 16) + 8, columns + 16, 1)
        x = Memory((2, rows, columns), strides).filled(self.half)
        out = results((2, rows, columns))
        launch("avg_pool2d", [x, out, *strides[:2], rows, vectors], grid, block)

        def expected(plane, row, column):
            near = [(row + i, column + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            return sum(of_bits(x[(plane, r, c)]) for r, c in near if 0 <= r < rows and 0 <= c < columns) / 9

        self.compare(out, expected)

    def test_avg_pool2d(self):
        self.avg_pool2d(5, 3, (2, 3, 2), (2, 2))

    def test_avg_pool2d_of_one_row_of_one_vector(self):
        self.avg_pool2d(1, 1, (2, 1, 1), (4, 8))

    def test_swiglu(self):
        x = Memory((5, 80), (96, 1)).filled(self.half)
        x[(1, 3)], x[(1, 4)], x[(2, 43)] = 0x7BFF, 0xFBFF, NAN
        out = results((5, 40))
        launch("swiglu", [x, out, 96, 40], (5, 2, 1), (4, 1))

        def expected(row, column):
            gate, up = of_bits(x[(row, column)]), of_bits(x[(row, 40 + column)])
            return gate / (1 + math.exp(min(-gate, 700.0))) * up

        self.compare(out, expected)

    def test_rope(self):
        q = Memory((3, 5, 32), (240, 40, 1)).filled(self.half)
        angles = [[self.random.uniform(-3, 3) for _ in range(16)] for _ in range(5)]
        tables = [Memory((5, 16), (20, 1), 4, math.nan) for _ in range(2)]
        for table, function in zip(tables, (math.cos, math.sin)):
            for at in table.places():
                table[at] = function(angles[at[0]][at[1]])
        out = results((3, 5, 32), (240, 40, 1))
        launch("rope", [q, *tables, out, 240, 40, 20, 5, 16], (3, 2, 1), (2, 4))

        def expected(head, token, column):
            lower, upper = (of_bits(q[(head, token, column % 16 + 16 * i)]) for i in (0, 1))
            c, s = (table[(token, column % 16)] for table in tables)
            return lower * c - upper * s if column < 16 else upper * c + lower * s

        self.compare(out, expected, ulps=2)  # where terms cancel, f32 shows

    def test_embedding_layer_norm(self):
        rows, columns, table_rows = 6, 768, 10
        ids = Memory((rows,), (1,), 8, 2**62)
        for at, index in enumerate((3, 9, -1, 0, table_rows, 2**32 + 1)):
            ids[(at,)] = index
        w = Memory((table_rows, columns), (columns, 1)).filled(lambda: rounded(self.random.gauss(3, 2)))
        g, b = (Memory((columns,), (1,)).filled(self.half) for _ in range(2))
        out = results((rows, columns))
        fields = [ids, w, g, b, out, rows, columns, table_rows, 1 / columns, 1e-5]
        launch("embedding_layer_norm", fields, (2, 1, 1), (128, 1))
        found = {}
        for index in (3, 9, 0):
            values = [of_bits(w[(index, column)]) for column in range(columns)]
            mean = math.fsum(values) / columns
            found[index] = (mean, math.fsum((one - mean) ** 2 for one in values) / columns)

        def expected(row, column):
            if ids[(row,)] not in found:
                return math.nan
            mean, variance = found[ids[(row,)]]
            value = (of_bits(w[(ids[(row,)], column)]) - mean) / math.sqrt(variance + 1e-5)
            return value * of_bits(g[(column,)]) + of_bits(b[(column,)])

        self.compare(out, expected, ulps=2)


class Files(unittest.TestCase):
    def test_every_kernel_is_counted_and_is_one_kernel_of_its_name(self):
        self.assertEqual(NAMES, sorted(one.by_hand for one in view_instructions.CASES))
        for name in NAMES:
            self.assertIn(f" {name}(const Params p)", (KERNELS / f"{name}.cu").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
