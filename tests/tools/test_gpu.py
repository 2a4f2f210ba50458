"""The command on a GPU: the same results as on the CPU, and timing. Skipped where there is none."""

import math

from support import ToolTest, gpu_works, main, read_npy

CASES = [
    ["relu(x + b)", "x=f16[64,1000]", "b=f32[1000]"],
    ["x * s + b", "x=f32[3,5,7,9]:nhwc", "s=f32[5,1,1]", "b=f32[5,1,1]:offset(1)", "--out", "f32:nhwc"],
    ["relu(x * s)", "x=i32[100,33]", "s=f16[33]", "--out", "i8"],
    ["y = maximum(x, alpha); return y, x > alpha", "x=bf16[77,13]:colmajor(80)", "alpha=0.25"],
    ["x + 1", "x=f8e4m3[1000]:offset(3)"],
    ["x * 2", "x=f32[5,6]:strides(-12,2)", "--out", "f64:strides(1,9)"],
    ["relu(x + b)", "x=f32[0,4]", "b=f32[4]"],
]


class Gpu(ToolTest):
    def setUp(self):
        super().setUp()
        if not gpu_works():
            self.skipTest("no GPU: `epifuse doctor` says why")

    def results(self, arguments, device):
        outputs = ["-o", f"{device}0.npy"] + (["-o", f"{device}1.npy"] if "return" in arguments[0] else [])
        self.succeed("run", *arguments, *outputs, "--device", "cuda:0" if device == "gpu" else device)
        return [read_npy(p) for p in sorted(self.folder.glob(f"{device}*.npy"))]

    def test_exact_chains_agree_with_the_cpu(self):
        for arguments in CASES:
            with self.subTest(arguments=arguments):
                self.assertEqual(self.results(arguments, "gpu"), self.results(arguments, "cpu"))

    def test_in_place(self):
        chain = ["x * 2 + b", "x=f16[64,1000]", "b=f32[1000]"]
        self.assertEqual(self.results([*chain, "--inplace", "x"], "gpu"), self.results(chain, "cpu"))

    def test_bench_of_a_short_and_a_long_launch(self):
        for shape, method in (("[256,256]", "CUDA graph, events"), ("[16384,16384]", "events")):
            with self.subTest(shape=shape):
                result = self.json_of("bench", "gelu(x + b)", f"x=f16{shape}", f"b=f32[{shape[1:-1].split(',')[1]}]", "--seconds", "0.3")
                self.assertEqual(result["method"], method)
                self.assertGreater(result["verified"]["checked"], 0)
                self.assertEqual(result["verified"]["different"], 0)
                self.assertTrue(0 < result["seconds"] < 0.1)
                self.assertTrue(0.2 < result["ratio"] < 5, result["ratio"])
                self.assertTrue(math.isfinite(result["copy_gbps"]))
                self.assertGreaterEqual(result["samples"], 15)
                self.assertGreaterEqual(result["sets"], 2)
                self.assertGreater(result["rotated_bytes"], 2 * result["gpu"]["l2_bytes"])

    def test_bench_says_at_once_that_memory_is_short(self):
        self.fail_with(1, ["device memory", "smaller tensors"], "bench", "x + 1", "x=f64[1000000000000]")


if __name__ == "__main__":
    main()
