"""The report of the odd-numbered tails of KernelBench level 2 has all of them, each right and as few kernels as data need.

Needs no tool and no PyTorch: bench/level2_tails.py writes the report."""

import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import level2_tails

REPORT = json.loads((ROOT / "tests" / "reports" / "tails.json").read_text())
TWO_KERNELS = {11, 15}  # statistics of what statistics have normalised
MOST_BYTES = 1.05  # of operands and results


class Tails(unittest.TestCase):
    def test_all_are_there(self):
        self.assertEqual([tail.number for tail in level2_tails.TAILS], list(range(1, 100, 2)))
        found = [(one["problem"], one["dtype"]) for one in REPORT["tails"]]
        self.assertEqual(found, [(number, dtype) for number in range(1, 100, 2) for dtype in ("f32", "f16", "bf16")])

    def test_the_report_is_of_these_chains(self):
        for one, tail in zip(REPORT["tails"], (tail for tail in level2_tails.TAILS for _ in level2_tails.TYPES)):
            self.assertEqual(one["chains"], list(tail.chains))
            self.assertEqual({name: tuple(shape) for name, shape in one["small"].items()}, level2_tails.small_operands(tail))

    def test_each_is_right_on_the_cpu_device(self):
        self.assertEqual([one for one in REPORT["tails"] if one["wrong"]], [])

    def test_each_kernel_is_right_as_emitted_text(self):
        kernels = sum(len(one["chains"]) for one in REPORT["tails"])
        self.assertEqual(REPORT["emitted"], {"kernels": kernels, "of": kernels, "failures": []})

    def test_data_alone_ask_for_more_than_one_kernel(self):
        for one in REPORT["tails"]:
            self.assertNotIn("refused", one)
            self.assertEqual(one["kernels"], 2 if one["problem"] in TWO_KERNELS else 1, one["problem"])

    def test_one_kernel_moves_operands_and_results_once(self):
        for one in REPORT["tails"]:
            self.assertAlmostEqual(one["ratio"], one["moved_bytes"] / one["least_bytes"], 4)
            if one["kernels"] == 1:
                self.assertLessEqual(one["ratio"], MOST_BYTES, (one["problem"], one["dtype"]))


if __name__ == "__main__":
    unittest.main()
