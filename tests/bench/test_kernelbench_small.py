"""The report of KernelBench's problems through torch.compile on few elements: level 1 from 19 to 53, level 2 odd numbers.
Each is right, and the tail of each is as few kernels as data need.

Needs no tool and no PyTorch: bench/kernelbench.py writes the report."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import level1
import level2
import record

REPORT = record.read(ROOT / "tests" / "reports" / "kernelbench-small.json")
TWO_KERNELS = {"11_rebuilt", "15_rebuilt"}  # statistics of what statistics have normalised
NO_TAIL = {"50_conv2d"}
NO_KERNEL_OF_EPIFUSES = {
    "convolution: not an operation that EpiFuse has",
    "addmm: not an operation that EpiFuse has",
    # Of a batch norm in training: its counter, and the copies into its buffers.
    "add: it computes with integers that a chain need not hold exactly",
    "copy_: not an operation that EpiFuse has",
}


class KernelBenchSmall(unittest.TestCase):
    def test_all_are_there(self):
        names = [f"{number}_{problem.name}" for number, problem in level1.PROBLEMS.items()]
        names += [f"{number}_rebuilt" for number in sorted(level2.PROBLEMS)]
        self.assertEqual(list(level1.PROBLEMS), list(range(19, 54)))
        self.assertEqual(sorted(level2.PROBLEMS), list(range(1, 100, 2)))
        found = [(one["problem"], one["dtype"]) for one in REPORT["records"]]
        self.assertEqual(found, [(name, dtype) for name in names for dtype in ("f32", "f16", "bf16")])

    def test_each_is_right(self):
        self.assertEqual([one["problem"] for one in REPORT["records"] if not one["right"]], [])

    def test_none_falls_back(self):
        for one in REPORT["records"]:
            self.assertEqual((one["fallback"], one["producers"]), ("", ["inductor"]), one["problem"])

    def test_each_tail_is_as_few_kernels_as_data_need(self):
        for one in REPORT["records"]:
            expected = 0 if one["problem"] in NO_TAIL else 2 if one["problem"] in TWO_KERNELS else 1
            self.assertEqual(len(one["chains"]), expected, one["problem"])

    def test_what_is_left_is_the_producers(self):
        left = {reason for one in REPORT["records"] for reason in one["left"]}
        self.assertLessEqual(left, NO_KERNEL_OF_EPIFUSES)


if __name__ == "__main__":
    unittest.main()
