"""What bench/pointwise.py computes and prints without a GPU: sectors, index arithmetic of the kernels by hand, instructions counted in
SASS, judging, tables; and a dry run of a few cases, which compiles kernels where there is NVRTC."""
import itertools
import os
import pathlib
import re
import subprocess
import sys
import unittest

try:
    import numpy  # what bench/views.py counts with
except ImportError:
    print("no NumPy: skipped")
    sys.exit(77)

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"
sys.path.insert(0, str(BENCH))
import by_hand
import chains
import markdown
import pointwise
import pointwise_cases
import record as record_file
import sass
import table_pointwise
import views
from views import Layout


def sectors_one_by_one(layout):
    """The definition: each byte of each element."""
    found = set()
    for index in itertools.product(*(range(n) for n in layout.shape)):
        first = (layout.offset + sum(i * s for i, s in zip(index, layout.strides))) * layout.itemsize
        found |= {(first + byte) // 32 for byte in range(layout.itemsize)}
    return len(found)


class Sectors(unittest.TestCase):
    def test_agrees_with_the_definition(self):
        for layout in (Layout((5, 7), (7, 1), 4), Layout((5, 7), (9, 1), 4, 3), Layout((6, 8), (16, 2), 2, 1), Layout((4, 4), (1, 9), 4),
                       Layout((3, 5, 6, 6), (1000, 64, 8, 1), 2, 9), Layout((9,), (17,), 1), Layout((4, 3), (0, 1), 4, 7),
                       Layout((2, 3, 4), (12, 1, 3), 4), Layout((1, 1), (5, 7), 8, 3), Layout((), (), 4, 1)):
            self.assertEqual(layout.sectors(), sectors_one_by_one(layout), layout)

    def test_pieces_share_a_sector(self):
        layout, at_once = Layout((100,), (3,), 4), views.RUNS_AT_ONCE
        try:
            views.RUNS_AT_ONCE = 7  # pieces end in the middle of sectors
            self.assertEqual(layout.sectors(), sectors_one_by_one(layout))
        finally:
            views.RUNS_AT_ONCE = at_once

    def test_overlap_is_refused(self):
        with self.assertRaisesRegex(ValueError, "overlap"):
            Layout((4, 4), (2, 1), 4).sectors()

    def test_dense_memory_costs_its_bytes(self):
        for case in pointwise_cases.ALL:
            for operand in case.tensors() if not case.view and "leading dimension" not in case.name else ():
                self.assertLess(operand.layout.traffic(), operand.layout.bytes() + 32, case.name)


class Kernels(unittest.TestCase):
    def test_dimensions_that_all_walk_alike_are_one(self):
        shape = (2, 3, 4, 5)
        channel = (0, 1, 0, 0)
        self.assertEqual(views.merged(shape, [views.dense(shape), channel]), ([2, 3, 20], [[60, 20, 1], [0, 1, 0]]))
        self.assertEqual(views.merged(shape, [views.channels_last(shape), channel]), ([40, 3], [[3, 1], [0, 1]]))
        self.assertEqual(views.merged((4, 8), [views.dense((4, 8))] * 2), ([32], [[1], [1]]))

    def test_index_arithmetic_reaches_the_right_elements(self):
        shape = (3, 4, 5)
        result = ("result", "f32", shape, views.dense(shape))
        operands = [("x", "f32", shape, (40, 10, 2)), ("bias", "f32", (4, 1), (1, 1)), ("across", "f32", shape, (1, 3, 12))]
        source = by_hand.kernel("x + bias + across", operands, result).source
        numbers = dict(zip(re.findall(r"Integer (\w+)[,)]", source), by_hand.kernel("x + bias + across", operands, result).numbers))
        where = {name: re.search(rf"\b{name}\[([^\]]*)\]", source)[1] for name in ("x", "bias", "across", "result")}
        lines = re.findall(r"const Integer (c\d) = ([^;]*);", source)
        for i, index in enumerate(itertools.product(*map(range, shape))):
            scope = numbers | {"i": i}
            for name, value in lines:
                scope[name] = eval(value.replace("/", "//"), {}, scope)
            found = {name: eval(place, {}, scope) for name, place in where.items()}
            a, b, c = index
            self.assertEqual(found, {"x": 40 * a + 10 * b + 2 * c, "bias": b, "across": a + 3 * b + 12 * c, "result": i})

    def test_wide_integers_only_where_needed(self):
        for shape, integer in (((2**31 - 512,), "int"), ((2**31,), "long long")):
            made = by_hand.kernel("relu(x)", [("x", "i8", shape, (1,))], ("result", "i8", shape, (1,)))
            self.assertIn(f"using Integer = {integer};", made.source)

    def test_numbers_become_floats(self):
        self.assertEqual(chains.in_cuda("r2 * clamp((r2 + 3) / 6, 0, 0.5) + 2.0"), "r2 * clamp((r2 + 3.0f) / 6.0f, 0.0f, 0.5f) + 2.0f")


# Straight code for 32 bytes, scalar code for one element, a rare path behind the exit that comes back.
SASS = """\
.text.k:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/              @P0 BRA `(.L_x_1) ;
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0030*/                   MUFU.RCP R4, R4 ;
        /*0040*/              @P1 BRA `(.L_x_3) ;
.L_x_2:
        /*0050*/                   STG.E.128 desc[UR4][R2.64], R4 ;
        /*0060*/                   STG.E.128 desc[UR4][R2.64+0x10], R4 ;
        /*0070*/                   EXIT ;
.L_x_1:
        /*0080*/                   FADD R4, R4, R5 ;
        /*0090*/                   STG.E.U16 desc[UR4][R2.64], R4 ;
        /*00a0*/                   EXIT ;
.L_x_3:
        /*00b0*/                   FADD R4, R4, R5 ;
        /*00c0*/                   BRA `(.L_x_2) ;
.L_x_4:
        /*00d0*/                   BRA `(.L_x_4) ;
        /*00e0*/                   NOP ;
"""


class Instructions(unittest.TestCase):
    def test_the_path_that_stores_most(self):
        self.assertEqual(sass.spent_on_hot_path(SASS), sass.Spent(instructions=8, special=1, stored=32))

    def test_what_is_copied_from_shared_memory(self):
        copied = SASS.replace("STG.E.128", "STS.128").replace("NOP", "UBLKCP.G.S [UR8], [UR5], UR4")
        self.assertEqual(sass.spent_on_hot_path(copied), sass.Spent(instructions=8, special=1, stored=32))

    def test_widths(self):
        self.assertEqual([sass.stored_bytes(code) for code in ("STG.E.128", "STG.E.EF.64", "STG.E", "STG.E.U8", "LDG.E")], [16, 8, 4, 1, 0])


def measured(case, **seconds):
    record = pointwise.record_of(case)
    record |= {"plan": {"schedule": "flat"}, "per_element": {"instructions": 50.0, "special": 2.0}, "problems": {}, "errors": {},
               "limited_by": "8192 blocks of 256 threads, 40 registers, 6 in flight per SM with 98.30 kB asked for, bound by registers"}
    return record | pointwise.evaluate(record, seconds)


def find(name, types):
    return next(case for case in pointwise_cases.ALL if (case.name, case.types) == (name, types))


def document(*records):
    return record_file.made("pointwise", device="a GPU", driver="1", command="x", records=records,
                            versions={"torch": "2", "triton": "3", "cupy": None, "epifuse": "0"},
                            settings={"copy_gbps": 3000.0, "multiprocessors": 100, "clock_hz": 1e9}) | {"commit": "c" * 40}


def merged(parts):
    return record_file.merged(parts, table_pointwise.TABLE.order)


class Tables(unittest.TestCase):
    def setUp(self):
        self.large = find("gelu(x + bias)", "f32")
        self.copy = self.large.traffic() / 3e12

    def test_targets_by_class(self):
        for name, types, expected in (("gelu(x + bias)", "f32", (1.02, None)), ("gelu(x + bias)", "f16", (1.03, None)),
                                      ("level2 9", "f32", (1.08, None)), ("x of 4 KB", "f16", (None, 1e-6)),
                                      ("transposed", "f32", (1.10, None)), ("GEMM, mish(mish(x))", "f16", (None, None))):
            self.assertEqual(pointwise_cases.target(find(name, types)), expected)

    def test_judged_as_printed(self):
        for ratio, missed in ((1.024, False), (1.026, True)):
            record = measured(self.large, copy=self.copy, epifuse=ratio * self.copy)
            self.assertEqual(table_pointwise.misses_target(record), missed)
        record = measured(self.large, copy=self.copy, epifuse=1.01 * self.copy, cupy=1.0 * self.copy, eager=2 * self.copy)
        self.assertEqual(table_pointwise.faster_peers(record), ["CuPy"])

    def test_small_tensors_have_a_microsecond(self):
        small = find("x of 64 KB", "f32")
        self.assertFalse(table_pointwise.misses_target(measured(small, copy=1.5e-6, epifuse=2.4e-6)))
        self.assertTrue(table_pointwise.misses_target(measured(small, copy=1.5e-6, epifuse=2.6e-6)))

    def test_pairs_are_compared_with_producer_and_copy(self):
        pair = find("GEMM, mish(mish(x))", "f32")
        self.assertAlmostEqual(measured(pair, copy=1e-5, producer=9e-5, epifuse=1.1e-4)["ratio"]["epifuse"], 1.1)

    def test_what_limits(self):
        slots = 50 * 8192 * 8192 / (100 * 128 * 1e9)  # seconds to issue 50 instructions per element
        record = measured(self.large, copy=self.copy, epifuse=slots)
        self.assertEqual(table_pointwise.limit_of(document(), record), f"instructions {slots / self.copy:.2f}")
        record = measured(self.large, copy=2 * slots, epifuse=3 * slots)
        self.assertEqual(table_pointwise.limit_of(document(), record), "bytes; 6 in flight per SM, registers")

    def test_table_and_parts(self):
        failed = pointwise.record_of(find("level2 1", "f16")) | {"error": "Wrong: a | b"}
        good = measured(self.large, copy=self.copy, epifuse=1.01 * self.copy, compile=1.4 * self.copy)
        pair = measured(find("GEMM, mish(mish(x))", "f32"), copy=1e-5, producer=9e-5, epifuse=1.1e-4)
        whole = merged([document(pair, good), document(failed)])
        self.assertEqual([record["group"] for record in whole["records"]], ["KernelBench level 2", "arithmetic", "producer + tail"])
        table = markdown.written(table_pointwise.TABLE, whole, "picture.svg")
        self.assertIn("| `gelu(x + bias)` | 8192×8192 | f32 | 179.0 | 180.8 | 1.01 | 1.02 | 1.40 |", table)
        self.assertIn("**failed**", table)
        self.assertIn("| f32, 64 MB and more | 1.02 | 1 | 1 | 1 | 1.01: gelu(x + bias), f32 |", table)
        with self.assertRaisesRegex(SystemExit, "commit"):
            merged([document(good), document() | {"commit": "d"}])

    def test_names_are_unique(self):
        names = [(case.name, case.types) for case in pointwise_cases.ALL]
        self.assertEqual(len(names), len(set(names)))


class DryRun(unittest.TestCase):
    def run_it(self, *arguments):
        command = [sys.executable, str(BENCH / "pointwise.py"), "--dry-run", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)

    @unittest.skipUnless(os.environ.get("EPIFUSE_BENCH_LIB"), "no library of the benchmarks")
    def test_a_few_cases(self):
        import bridge
        if bridge.system()["nvrtc"] is None:
            self.skipTest("no NVRTC")
        done = self.run_it("--cases", "level2 (1|57|95)$|views: (inter|transposed$)|column-major, lead", "--types", "f32", "--registers")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 6, done.stdout)
        self.assertIn("transposed f32: ", done.stdout)

    def test_bad_part(self):
        done = self.run_it("--part", "0/2")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected K/N", done.stderr)


if __name__ == "__main__":
    unittest.main()
