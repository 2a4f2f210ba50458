"""`epifuse bench` on the CPU: timed, and the arithmetic of what it prints. Only a GPU's results are verified: test_gpu.py."""

from support import ToolTest, main

BENCH = ["bench", "gelu(x + bias)", "x=f32[256,256]", "bias=f32[256]", "--device", "cpu", "--seconds", "0.05"]


class Bench(ToolTest):
    def test_text(self):
        out = self.succeed(*BENCH)
        for word in ("chain", "memcpy", "ratio", "GB/s", "wall clock"):
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
        self.assertIsNone(result["verified"])

    def test_the_cpu_does_not_verify_itself(self):
        self.assertIn("verified  no: ", self.succeed(*BENCH))

    def test_what_runs_can_be_timed(self):
        """Chains that no GPU computes in one kernel, operands that lie in gaps, repeat or are not read, results of several shapes."""
        cases = [
            (["softmax(softmax(x, 0), 1)", "x=f32[64,48]"], 64 * 48 * 4, 64 * 48 * 4, 64 * 48),
            (["return x - mean(x, 0, true), sum(x, 1)", "x=f16[8,16]", "--out", "f32"], 8 * 16 * 2, 8 * 16 * 4 + 8 * 2, 8 * 16),
            (["(x - mean(x, 1, true)) / amax(x)", "x=f32[10,7]"], 70 * 4, 70 * 4, 70),
            (["x + b", "x=f32[8,16]:strides(32,1)", "b=f32[8,16]:strides(0,1)"], 8 * 16 * 4 + 16 * 4, 8 * 16 * 4, 8 * 16),
            (["input x, y; x + 1", "x=f32[8]", "y=f32[8]"], 8 * 4, 8 * 4, 8),
            (["index_copy(c, 0, i, x * 2)", "c=f32[100,4]", "i=i64[3]", "x=f32[3,4]"], 3 * 4 * 4 + 3 * 8, 3 * 4 * 4, 12),
        ]
        for arguments, read, written, elements in cases:
            with self.subTest(arguments=arguments):
                self.succeed("run", *arguments, "--device", "cpu")
                result = self.json_of("bench", *arguments, "--device", "cpu", "--seconds", "0.01")
                self.assertEqual((result["bytes_read"], result["bytes_written"], result["elements"]), (read, written, elements))

    def test_the_spread(self):
        self.assertRegex(self.succeed(*BENCH), r"spread +half of the samples within .* to .*, the fastest ")
        result = self.json_of(*BENCH)
        low, high = result["seconds_quartiles"]
        self.assertLessEqual(result["seconds_fastest"], low)
        self.assertLessEqual(low, result["seconds"])
        self.assertLessEqual(result["seconds"], high)

    def test_several_chains_are_compared(self):
        """The second does a hundred times what the first does; the third is the first again. Operands go to the chains that have them."""
        slow = "x" + " + sin(x * 3)" * 100
        arguments = ["bench", "x + 1", "--with", f"{slow} + b", "--with", "x + 1", "x=f32[256,256]", "b=f32[256]",
                     "--device", "cpu", "--seconds", "0.05"]
        chains = self.json_of(*arguments)["chains"]
        self.assertEqual([len(one["inputs"]) for one in chains], [1, 2, 1])
        self.assertEqual((chains[0]["relative"], chains[0]["apart"]), (1, False))
        self.assertGreater(chains[1]["relative"], 3)
        self.assertTrue(chains[1]["apart"])
        self.assertAlmostEqual(chains[1]["relative"], chains[1]["seconds"] / chains[0]["seconds"])
        text = self.succeed(*arguments)
        self.assertIn("compared with the first\n  1.000 x", text)
        self.fail_with(2, ["unknown operand 'c'"], *arguments, "c=f32[256]")
        self.fail_with(2, ["unknown function 'rely'"], *arguments, "--with", "rely(x)")

    def test_seconds(self):
        self.fail_with(2, ["--seconds"], *BENCH[:-1], "-1")
        self.fail_with(2, ["--seconds"], *BENCH[:-1], "long")


if __name__ == "__main__":
    main()
