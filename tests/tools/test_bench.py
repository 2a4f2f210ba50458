"""`epifuse bench` on the CPU: verified, timed, and the arithmetic of what it prints."""

from support import ToolTest, main

BENCH = ["bench", "gelu(x + bias)", "x=f32[256,256]", "bias=f32[256]", "--device", "cpu", "--seconds", "0.05"]


class Bench(ToolTest):
    def test_text(self):
        out = self.succeed(*BENCH)
        for word in ("verified", "chain", "memcpy", "ratio", "GB/s", "wall clock"):
            self.assertIn(word, out)

    def test_json(self):
        result = self.json_of(*BENCH, env={"EPIFUSE_COMMIT": "abc123"})
        self.assertEqual((result["device"], result["gpu"], result["commit"]), ("cpu", None, "abc123"))
        self.assertEqual(result["bytes_read"], 256 * 256 * 4 + 256 * 4)
        self.assertEqual(result["bytes_written"], 256 * 256 * 4)
        self.assertEqual(result["elements"], 256 * 256)
        moved = result["bytes_read"] + result["bytes_written"]
        self.assertAlmostEqual(result["gbps"], moved / result["seconds"] * 1e-9)
        self.assertAlmostEqual(result["copy_gbps"], moved / result["copy_seconds"] * 1e-9)
        self.assertAlmostEqual(result["ratio"], result["seconds"] / result["copy_seconds"])
        self.assertLessEqual(result["seconds_fastest"], result["seconds"])
        self.assertGreaterEqual(result["samples"], 5)
        self.assertEqual(result["verified"], {"checked": 256 * 256, "different": 0, "worst": 0})

    def test_large_results_are_sampled(self):
        result = self.json_of("bench", "y = x * 2; return y, y > s", "x=f16[70,5,1001]:offset(1)", "s=0.5", "--out", "f32:strides(9000,1500,1)",
                              "--device", "cpu", "--seconds", "0.01")
        # Boxes of at most 2^16 elements: 13 of the 70 outermost steps (5 x 1001 elements each), 32 times, for both results.
        self.assertEqual(result["verified"], {"checked": 2 * 32 * 13 * 5 * 1001, "different": 0, "worst": 0})

    def test_seconds(self):
        self.fail_with(2, ["--seconds"], *BENCH[:-1], "-1")
        self.fail_with(2, ["--seconds"], *BENCH[:-1], "long")


if __name__ == "__main__":
    main()
