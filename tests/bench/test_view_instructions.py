"""The counts of kernels that read through views: which path is counted, what its instructions are for, and what the committed record says.

No tool is needed: machine code is made up, and the committed record has what the tool and the disassembler gave."""

import json
import pathlib
import sys
import unittest
import unittest.mock

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"
sys.path.insert(0, str(BENCH))
import record
import sass
import sass_path
import view_instructions

RECORDS = record.read(record.RESULTS / "view-instructions-stub.json")["records"]


def code(text):
    """Lines as nvdisasm prints them: a label, or an instruction behind its address."""
    lines = []
    for at, line in enumerate(map(str.strip, text.strip().splitlines())):
        lines.append(line if line.endswith(":") else f"        /*{16 * at:04x}*/                   {line} ;")
    return "\n".join(lines)


# A load that a border skips, 16 bytes that others read at once or 4 at a time, a store, and the loop behind the end that every kernel has.
BORDER = code("""
S2R R0, SR_TID.X
ISETP.GE.AND P0, PT, R0, 0x8, PT
@P0 EXIT
BSSY B0, `(.L_x_1)
@P1 BRA `(.L_x_1)
LDG.E.U16 R2, desc[UR4][R4.64]
HADD2.F32 R2, -RZ, R2.H0_H0
.L_x_1:
BSYNC B0
@P2 BRA `(.L_x_2)
LDG.E.128 R8, desc[UR4][R4.64]
BRA `(.L_x_3)
.L_x_2:
LDG.E R8, desc[UR4][R4.64]
LDG.E R9, desc[UR4][R4.64+0x4]
LDG.E R10, desc[UR4][R4.64+0x8]
LDG.E R11, desc[UR4][R4.64+0xc]
.L_x_3:
FADD R8, R8, R2
F2FP.F16.F32.PACK_AB R8, R8, R9
STG.E.64 desc[UR4][R6.64], R8
EXIT
.L_x_4:
BRA `(.L_x_4)
NOP
""")
COUNTED = [
    "S2R", "ISETP.GE.AND", "EXIT", "BSSY", "BRA", "LDG.E.U16", "HADD2.F32", "BSYNC", "BRA", "LDG.E.128", "BRA", "FADD",
    "F2FP.F16.F32.PACK_AB", "STG.E.64", "EXIT",
]  # fmt: skip


# A flag that is 0 unless a test has set it, as ptxas makes one of `full = count == 8 && is_aligned(...)`.
FLAG = code("""
ISETP.GE.AND P0, PT, R3, 0x8, PT
BSSY B0, `(.L_x_0)
PRMT R4, RZ, 0x7610, R4
@!P0 BRA `(.L_x_1)
LOP3.LUT P0, RZ, R5, 0xf, RZ, 0xc0, !PT
SEL R4, RZ, 0x1, P0
.L_x_1:
BSYNC B0
.L_x_0:
PRMT R4, R4, 0x9910, RZ
ISETP.NE.AND P0, PT, R4, RZ, PT
@!P0 BRA `(.L_x_2)
LDG.E.128 R8, desc[UR4][R4.64]
STG.E.128 desc[UR4][R6.64], R8
EXIT
.L_x_2:
LDG.E.U16 R8, desc[UR4][R4.64]
STG.E.U16 desc[UR4][R6.64], R8
EXIT
""")


class Path(unittest.TestCase):
    def test_it_is_that_of_a_thread_without_borders_and_with_the_widest_loads(self):
        self.assertEqual(sass_path.full_path(BORDER), COUNTED)

    def test_what_stores_most_alone_would_skip_the_border(self):
        self.assertEqual(sass.spent_on_hot_path(BORDER).instructions, len(COUNTED) - 2)

    def test_the_way_around_a_test_does_not_pass_it(self):
        self.assertEqual(len(sass_path.full_path(FLAG)), 13)
        self.assertIn("LOP3.LUT", sass_path.full_path(FLAG))
        self.assertEqual(sass.spent_on_hot_path(FLAG).instructions, 11)

    def test_a_predicate_that_was_branched_on_stays_what_it_was(self):
        again = FLAG.replace("LOP3.LUT P0, RZ, R5, 0xf, RZ, 0xc0, !PT", "FADD R5, R5, R5").replace(
            "ISETP.NE.AND P0, PT, R4, RZ, PT", "FADD R5, R5, R5"
        )
        self.assertIn("SEL", sass_path.full_path(again))
        anew = again.replace("BSYNC B0", "ISETP.GE.AND P0, PT, R3, 0x4, PT")
        self.assertNotIn("SEL", sass_path.full_path(anew))

    def test_a_loop_is_refused(self):
        looped = BORDER.replace("HADD2.F32 R2, -RZ, R2.H0_H0", "@P3 BRA `(.L_x_1)").replace("BSYNC B0", "@P3 BRA `(.L_x_1)")
        with self.assertRaisesRegex(SystemExit, "the path has a loop"):
            sass_path.full_path(looped)

    def test_its_instructions_are_told_apart(self):
        found = view_instructions.counted(BORDER, 30)
        self.assertEqual(found["results"], 4)
        self.assertEqual(found["instructions"], len(COUNTED) / 4)
        self.assertEqual(found["kinds"], {"memory": 3 / 4, "conversions": 2 / 4, "arithmetic": 1 / 4, "index": 9 / 4})
        self.assertEqual(found["bytes_per_access"], [16, 8, 2])


class Measured(unittest.TestCase):
    def test_operands_that_lie_in_memory_have_their_access(self):
        operands = [
            {"name": "x", "access": "linear", "bytes_per_access": 16},
            {"name": "inside", "access": "bound", "bytes_per_access": 1},
        ]
        plan = {"plan": {"schedule": "flat", "registers": 30, "operands": operands}}
        answers = {"plan": json.dumps(plan), "sass": BORDER}
        longer = BORDER
        counts = {}
        for compiler in ("contracts", "rounds"):
            longer = longer.replace("FADD", "FADD R1 ;\n        /*0000*/ FADD", 1)
            counts[compiler] = view_instructions.counted(longer, 20)
        with (
            unittest.mock.patch.object(view_instructions, "dumped", lambda _, __, *emit: answers[emit[0]]),
            unittest.mock.patch.object(view_instructions, "by_hand", lambda nvrtc, _: counts[nvrtc]),
        ):
            found = view_instructions.measured("no tool", "contracts", "rounds", view_instructions.CASES[0])
        self.assertEqual(found["plan_bytes_per_access"], {"x": 16})
        self.assertEqual(found["ratio"], len(COUNTED) / (len(COUNTED) + 1))
        self.assertEqual(found["ratio_not_contracted"], len(COUNTED) / (len(COUNTED) + 2))

    def test_a_source_by_hand_has_its_header_in_its_place(self):
        text = view_instructions.source_of("rope")
        self.assertNotIn("#include \"", text)
        self.assertEqual(text.count("struct alignas(16) Eight"), 1)


class Record(unittest.TestCase):
    def test_it_has_every_case(self):
        expected = [(case.chain, case.by_hand) for case in view_instructions.CASES]
        self.assertEqual([(one["chain"], one["by_hand"]) for one in RECORDS], expected)
        for case, one in zip(view_instructions.CASES, RECORDS):
            given = {name: [dtype, list(shape)] for name, (dtype, shape) in case.operands.items()}
            self.assertEqual(one["operands"], given)

    def test_its_numbers_agree_with_each_other(self):
        for one in RECORDS:
            with self.subTest(one["by_hand"]):
                ours, hand, rounded = one["epifuse"], one["hand"], one["hand_not_contracted"]
                self.assertEqual(one["ratio"], ours["instructions"] / hand["instructions"])
                self.assertEqual(one["ratio_not_contracted"], ours["instructions"] / rounded["instructions"])
                self.assertGreaterEqual(rounded["instructions"], hand["instructions"])
                for counts in (ours, hand, rounded):
                    self.assertAlmostEqual(sum(counts["kinds"].values()), counts["instructions"])
                self.assertLessEqual(max(ours["bytes_per_access"]), max(one["plan_bytes_per_access"].values()))
                self.assertEqual(hand["bytes_per_access"][0], 16)


if __name__ == "__main__":
    unittest.main()
