"""bench/convolutions.py without a GPU: which cases there are, how results are checked, and its table."""
import importlib.util
import pathlib
import sys
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import convolutions
import markdown
import package_cases
import record as record_file
import table_package
from gpu_timing import Wrong

SMALL = ((10, 8, 9, 7), 16, 3, 2, 1)  # more images than are compared at once


def of_small(name):
    return convolutions.Case(*SMALL, next(chain for chain in convolutions.CHAINS if chain.name == name))


class Table(unittest.TestCase):
    def test_what_a_case_lacks_is_missing(self):
        bare = {"case": "bare", "dtype": "f16", "target": 1.02, "flops": 2e12, "ratio": {"epifuse": 0.985}, "seconds": {"product": 4e-3}}
        hosted = bare | {"case": "chain", "ratio": {"epifuse": 1.1, "pair": 1.3, "library": 1.05, "compile": 1.4, "eager": 2}}
        failed = {"case": "broken", "dtype": "f16", "error": "it is wrong"}
        document = record_file.made("convolutions", device="a GPU", driver="1", versions={"torch": "2"}, records=[bare, hosted, failed])
        text = markdown.written(table_package.CONVOLUTIONS, document | {"commit": "b" * 40})
        self.assertIn("| images, filters, chain | type | cuDNN, ms | TFLOP/s | one kernel | cuDNN, then chain | cuDNN's epilogue | torch.compile | eager |", text)
        self.assertIn("| bare | f16 | 4.0000 | 500 | 0.985 | – | – | – | – |", text)
        self.assertIn("| chain | f16 | 4.0000 | 500 | 1.100 | 1.300 | 1.050 | 1.400 | 2.000 |", text)
        self.assertIn("at most 1.02 of it in 1 of 2 cases, and less than the convolution and then the chain in 1 of 1", text)
        self.assertIn("- broken, f16: it is wrong", text)


class Cases(unittest.TestCase):
    def test_a_name_is_of_one_case(self):
        names = [case.name for case in convolutions.CASES]
        self.assertEqual(len(set(names)), len(names))
        self.assertIn("32×256×56×56, 512 of 3×3, stride 2, relu(x) + b", names)

    def test_the_operands_have_the_results_shape(self):
        case = of_small("relu(x + b + r)")
        self.assertEqual(case.shapes(), {"x": (10, 8, 9, 7), "w": (16, 8, 3, 3), "b": (16,), "r": (10, 16, 5, 4)})
        self.assertEqual(case.text("f16"), "relu(conv2d(x, w, b, stride=2, padding=1) + r)")
        self.assertEqual(case.flops(), 2 * 10 * 16 * 5 * 4 * 8 * 9)

    def test_a_chain_behind_the_convolution_is_the_chain_of_the_convolution(self):
        for chain in convolutions.CHAINS:
            behind = chain.behind.replace("{p} + b[:, None, None]", "conv2d(x, w, b, {how})").replace("{p}", "conv2d(x, w, {how})")
            self.assertEqual(behind, chain.text)


@unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch")
class Results(unittest.TestCase):
    """Each image is checked, by the tolerance of its type."""

    @classmethod
    def setUpClass(cls):
        convolutions.use_torch()
        cls.torch = convolutions.torch

    def setUp(self):
        self.torch.manual_seed(1)
        randn = self.torch.randn
        with unittest.mock.patch.object(self.torch, "randn", lambda shape, device: randn(shape)):
            self.operands = of_small("relu(x + b + r)").operands("bf16")

    def exact(self, case):
        x, w, *others = (self.operands[name].double() for name in ("x", "w", *case.chain.operands))
        return case.chain.function(case.convolve(x, w), *others)

    def worst(self, case, found, is_one_kernel=True):
        return convolutions.worst_difference(case, "bf16", found, self.operands, is_one_kernel)

    def test_images_are_channels_last(self):
        for name in ("x", "w", "r"):
            self.assertTrue(self.operands[name].is_contiguous(memory_format=self.torch.channels_last), name)

    def test_rounded_once_they_are_right(self):
        for name in ("bare", "relu(x + b + r)", "relu(x) + b"):
            case = of_small(name)
            self.assertLessEqual(self.worst(case, self.exact(case).bfloat16()), 1)

    def test_the_last_image_is_looked_at(self):
        case = of_small("relu(x) + b")
        found = self.exact(case).bfloat16()
        found[-1, 3, 2, 1] += 0.5
        with self.assertRaisesRegex(Wrong, "result 0 is wrong"):
            self.worst(case, found)
        with self.assertRaisesRegex(Wrong, "result 0 is wrong"):
            self.worst(case, found, is_one_kernel=False)
        with self.assertRaises(Wrong):
            self.worst(case, found[:, :-1])

    def test_contestants_of_a_bare_convolution_are_two(self):
        tail = types.SimpleNamespace(inputs=("x", "w"))
        with unittest.mock.patch.dict(sys.modules, {"epifuse": types.SimpleNamespace(compile=lambda text: tail)}):
            options, sets = types.SimpleNamespace(no_compile=True), [(self.operands,)]
            made = convolutions.contestants_of(of_small("bare"), tail, sets, options)
            self.assertEqual(set(made), {"product", "epifuse"})
            made = convolutions.contestants_of(of_small("relu(x + b + r)"), tail, sets, options)
            self.assertEqual(set(made), {"product", "epifuse", "pair", "eager", "library"})
        self.assertEqual(made["product"].function(self.operands).shape, (10, 16, 5, 4))


class Plans(unittest.TestCase):
    def test_a_plan_says_its_convolution_and_its_tile(self):
        text = "convolution      f16[1, 8, 9, 9] with filters\ntile             128 x 128\ngrid             1 block"
        line = package_cases.line_of_product(types.SimpleNamespace(text=lambda: text))
        self.assertEqual(line, "f16[1, 8, 9, 9] with filters 128 x 128")


if __name__ == "__main__":
    unittest.main()
