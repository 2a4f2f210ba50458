"""bench/products.py without a GPU: which cases have which contestants, how several results are checked, and its table of records with and without
peers."""
import importlib.util
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import markdown
import products
import record as record_file
import table_package
from gpu_timing import Wrong


def record(**ratio):
    ratio = {"epifuse": 1.0, "pair": 1.1} | ratio
    return {"case": "8×4 to 4, bare", "dtype": "bf16", "target": 1.02, "flops": 256, "ratio": ratio, "seconds": {"product": 1e-3}}


def rows(*records):
    document = record_file.made("products", device="a GPU", driver="1", versions={"torch": "2"}, records=records) | {"commit": "b" * 40}
    lines = [line for line in markdown.written(table_package.PRODUCTS, document).splitlines() if line.startswith("|")]
    headings, _, *cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [dict(zip(headings, line, strict=True)) for line in cells]


class Table(unittest.TestCase):
    def test_peers_have_columns_also_where_a_record_lacks_them(self):
        old, new = rows(record(), record(best=0.97, autotune=1.25))
        best, autotune = "cuBLASLt, best of its heuristics", "max-autotune"
        self.assertEqual((old[best], old[autotune], old["one kernel"]), (markdown.MISSING, markdown.MISSING, "1.000"))
        self.assertEqual((new[best], new[autotune], new["product, then chain"]), ("0.970", "1.250", "1.100"))


class Cases(unittest.TestCase):
    def autotuned(self, autotune=None, no_compile=False):
        options = types.SimpleNamespace(autotune=autotune, no_compile=no_compile)
        return [case.name for dtype in products.DTYPES for case in products.cases_of(dtype) if products.is_autotuned(case, dtype, options)]

    def test_few_are_autotuned_unless_all_or_none_are_to_be(self):
        few = self.autotuned()
        self.assertEqual(len(few), len(products.CHAINS) + 1)
        self.assertEqual({name.partition(",")[0] for name in few}, {"8192×4096 to 4096", "4096×4096 to 22016"})
        self.assertEqual(self.autotuned(autotune=False) + self.autotuned(no_compile=True), [])
        self.assertEqual(len(self.autotuned(autotune=True)), sum(len(products.cases_of(dtype)) for dtype in products.DTYPES))

    def test_chains_of_two_results_are_for_the_types_that_have_them(self):
        chains = {dtype: {case.chain.name for case in products.cases_of(dtype)} for dtype in products.DTYPES}
        self.assertEqual([dtype for dtype in products.DTYPES if "x + r with row squares" in chains[dtype]], ["bf16", "f16"])
        self.assertEqual([dtype for dtype in products.DTYPES if "to fp8 per 1x128" in chains[dtype]], ["bf16"])

    def test_a_chain_behind_the_product_is_the_chain_of_the_product(self):
        for chain in [*products.CHAINS, products.SWIGLU]:
            given = "linear(x, w, b)" if "b" in chain.operands else "linear(x, w)"
            behind = chain.behind.format(p="linear(x, w)").replace("linear(x, w) + b", "linear(x, w, b)")
            self.assertIn(given, chain.text)
            self.assertEqual(behind, chain.text)


@unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch")
class Results(unittest.TestCase):
    """Each is checked, by the tolerance of its type."""

    @classmethod
    def setUpClass(cls):
        products.use_torch()
        products.torch.manual_seed(1)
        cls.product = products.torch.randn(16, 512, dtype=products.torch.float64)
        cls.quantised = staticmethod(next(chain for chain in products.CHAINS if "quantize" in chain.text).function)
        cls.exact = cls.quantised(cls.product)

    def worst(self, found, is_one_kernel=True):
        return products.worst_difference(found, self.exact, "bf16", is_one_kernel)

    def test_those_of_a_sum_in_f32_are_right(self):
        self.assertLessEqual(self.worst(self.quantised(self.product.float())), 1)

    def test_those_of_a_rounded_product_are_right_only_where_it_is_apart(self):
        rounded = self.quantised(self.product.bfloat16())
        self.assertLessEqual(self.worst(rounded, is_one_kernel=False), 1)
        with self.assertRaisesRegex(Wrong, "result 1 is wrong"):
            self.worst(rounded)
        with self.assertRaisesRegex(Wrong, "result 1 is wrong"):
            self.worst((rounded[0], rounded[1] * 1.02), is_one_kernel=False)

    def test_each_is_looked_at(self):
        values, scales = self.quantised(self.product.float())
        off = scales.clone()
        off[3, 1] *= 1.01
        with self.assertRaisesRegex(Wrong, "result 1 is wrong"):
            self.worst((values, off))
        for code in (int(values.view(products.torch.uint8)[3, 2]) ^ 0x80, 0x7F):  # of the other sign, and NaN
            off = values.clone()
            off.view(products.torch.uint8)[3, 2] = code
            with self.assertRaisesRegex(Wrong, "result 0 is wrong: off by .* steps"):
                self.worst((off, scales))
        with self.assertRaises(ValueError):
            self.worst((values,))

    def test_sums_of_rows_are_a_result_of_their_own(self):
        chain = next(chain for chain in products.CHAINS if "square" in chain.text)
        residual = products.torch.randn(16, 512).bfloat16()
        found = chain.function(self.product.bfloat16(), residual)
        self.assertEqual([list(one.shape) for one in found], [[16, 512], [16, 1]])
        exact = chain.function(self.product, residual.double())
        self.assertLessEqual(products.worst_difference(found, exact, "bf16", False), 1)
        with self.assertRaisesRegex(Wrong, "result 1 is wrong"):
            products.worst_difference((found[0], found[1] * 1.1), exact, "bf16", False)


if __name__ == "__main__":
    unittest.main()
