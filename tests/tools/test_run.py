"""`epifuse run`: values, in place, several results, summaries, JSON, devices."""

import math
import os
import struct

from support import ToolTest, gpu_works, main, read_npy, write_npy


class Values(ToolTest):
    def test_the_example_of_the_help(self):
        conv = [-1.0, 0.25, 0.75, 2.0]
        write_npy(self.folder / "conv.npy", "f4", conv, (2, 2))
        write_npy(self.folder / "bias.npy", "f4", [1.0, -1.0], (2, 1))
        self.succeed("run", "(minimum(x, 0.5) + bias) * 2", "x=@conv.npy", "bias=@bias.npy", "-o", "y.npy")
        self.assertEqual(read_npy(self.folder / "y.npy"), ("f4", [0.0, 2.5, -1.0, -1.0], (2, 2), False))

    def test_sigmoid_against_its_definition(self):
        x = [i / 7 - 5 for i in range(70)]
        x = list(struct.unpack("70f", struct.pack("70f", *x)))
        write_npy(self.folder / "x.npy", "f4", x, (7, 10))
        write_npy(self.folder / "b.npy", "f4", [i / 4 for i in range(10)])
        self.succeed("run", "sigmoid((x + b) * scale)", "x=@x.npy", "b=@b.npy", "scale=0.5", "-o", "y.npy", "--device", "cpu")
        expected = [1 / (1 + math.exp(-(v + i % 10 / 4) * 0.5)) for i, v in enumerate(x)]
        for found, wanted in zip(read_npy(self.folder / "y.npy")[1], expected, strict=True):
            self.assertAlmostEqual(found, wanted, delta=2e-7)

    def test_requantisation(self):
        write_npy(self.folder / "x.npy", "i4", [-500, 25, 1000, 2**20], (2, 2))
        write_npy(self.folder / "s.npy", "f4", [0.5, 0.1], (2,))
        self.succeed("run", "relu(x * s)", "x=@x.npy", "s=@s.npy", "--out", "i8", "-o", "y.npy", "--device", "cpu")
        self.assertEqual(read_npy(self.folder / "y.npy"), ("i1", [0, 2, 127, 127], (2, 2), False))

    def test_in_place(self):
        self.succeed("run", "gelu(x + b)", "x=f16[30,17]", "b=f32[17]", "--out", "f16", "-o", "y.npy", "--device", "cpu")
        self.succeed("run", "gelu(x + b)", "x=f16[30,17]", "b=f32[17]", "-o", "z.npy", "--inplace", "x", "--device", "cpu")
        self.assertEqual(read_npy(self.folder / "z.npy"), read_npy(self.folder / "y.npy"))

    def test_in_place_keeps_the_operands_layout_and_type(self):
        result = self.json_of("run", "x > 0", "x=f32[2,3,4,5]:nhwc", "--inplace", "x", "--device", "cpu")["results"][0]
        self.assertEqual((result["dtype"], result["strides"]), ("f32", [60, 1, 15, 3]))

    def test_layouts_agree(self):
        for layout in ("", ":nhwc", ":colmajor", ":strides(400,95,18,3)", ":offset(1)"):
            self.succeed("run", "silu(x * s + b)", f"x=f16[3,4,5,6]{layout}", "s=f32[4,1,1]", "b=f32[4,1,1]:offset(1)", "--out",
                         f"f32{layout}", "-o", f"y{len(layout)}.npy", "--device", "cpu")
        results = [read_npy(p)[1:3] for p in sorted(self.folder.glob("y*.npy")) if not read_npy(p)[3]]
        self.assertGreaterEqual(len(results), 4)
        for result in results:
            self.assertEqual(result, results[0])

    def test_a_chain_that_begins_with_a_minus(self):
        write_npy(self.folder / "x.npy", "f4", [1.0, -2.0])
        self.succeed("run", "-o", "y.npy", "--device", "cpu", "--", "-x", "x=@x.npy")
        self.assertEqual(read_npy(self.folder / "y.npy")[1], [-1.0, 2.0])
        self.fail_with(2, ["goes after '--'"], "run", "-x * 2", "x=@x.npy")

    def test_zero_size(self):
        self.assertIn("empty", self.succeed("run", "relu(x + b)", "x=f32[0,4]", "b=f32[4]", "--device", "cpu"))


class Gradients(ToolTest):
    def test_of_given_gradients(self):
        x = [-1.5, -0.25, 0.5, 2.0, 1.0, -3.0]
        dout = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        write_npy(self.folder / "x.npy", "f4", x, (2, 3))
        write_npy(self.folder / "dout.npy", "f4", dout, (2, 3))
        write_npy(self.folder / "b.npy", "f4", [0.0, 1.0, 0.0], (3,))
        self.succeed("run", "relu(x + b) * 2", "x=@x.npy", "b=@b.npy", "dout=@dout.npy", "--gradient", "x,b", "-o", "dx.npy", "-o",
                     "db=db.npy", "--device", "cpu")
        dx = [2 * g if v + b > 0 else 0.0 for v, g, b in zip(x, dout, [0.0, 1.0, 0.0] * 2, strict=True)]
        self.assertEqual(read_npy(self.folder / "dx.npy"), ("f4", dx, (2, 3), False))
        self.assertEqual(read_npy(self.folder / "db.npy"), ("f4", [a + b for a, b in zip(dx[:3], dx[3:], strict=True)], (3,), False))

    def test_takes_what_the_forward_pass_saves(self):
        x = [1.0, 2.0, 4.0, 7.0, -3.0, 0.5, 0.25, 9.0]
        dout = [0.5, -1.0, 2.0, 0.0, 1.0, 1.0, -2.0, 3.0]
        write_npy(self.folder / "x.npy", "f8", x, (2, 4))
        write_npy(self.folder / "dout.npy", "f8", dout, (2, 4))
        self.succeed("run", "layer_norm(x, eps=0)", "x=@x.npy", "dout=@dout.npy", "--gradient", "x", "-o", "dx.npy", "--device", "cpu")
        found = read_npy(self.folder / "dx.npy")[1]
        for row in range(2):
            own, g = x[4 * row : 4 * row + 4], dout[4 * row : 4 * row + 4]
            mean = sum(own) / 4
            deviation = math.sqrt(sum((v - mean) ** 2 for v in own) / 4)
            y = [(v - mean) / deviation for v in own]
            of_y = sum(a * b for a, b in zip(g, y, strict=True)) / 4
            for k in range(4):
                self.assertAlmostEqual(found[4 * row + k], (g[k] - sum(g) / 4 - y[k] * of_y) / deviation, delta=1e-12)

    def test_drops_what_the_forward_pass_drops(self):
        write_npy(self.folder / "ones.npy", "f4", [1.0] * 600, (20, 30))
        chain = ["dropout(x, 0.4, s, 3)", "x=@ones.npy", "s=123456789012345"]
        self.succeed("run", *chain, "-o", "y.npy", "--device", "cpu")
        self.succeed("run", *chain, "dout=@ones.npy", "--gradient", "x", "-o", "dx.npy", "--device", "cpu")
        self.assertEqual(read_npy(self.folder / "y.npy"), read_npy(self.folder / "dx.npy"))
        self.assertGreater(read_npy(self.folder / "y.npy")[1].count(0.0), 180)

    def test_of_random_gradients_is_reproducible(self):
        arguments = ["run", "gelu(x + b)", "x=f16[6,70]", "b=f32[70]", "--out", "f16", "--gradient", "x,b", "--device", "cpu"]
        results = self.json_of(*arguments)["results"]
        self.assertEqual([(r["name"], r["dtype"]) for r in results], [("dx", "f16"), ("db", "f32")])
        self.assertEqual(self.json_of(*arguments)["results"], results)
        self.assertNotEqual(self.json_of(*arguments, "--seed", "1")["results"], results)

    def test_refused(self):
        write_npy(self.folder / "g.npy", "f4", [1.0, 2.0])
        x = ["run", "relu(x)", "x=f32[4]", "--gradient", "x"]
        self.fail_with(2, ["operand 'dout' has shape [2]; expected [4], that of 'out'"], *x, "dout=@g.npy")
        self.fail_with(2, ["operand 'dout' is a tensor, but its value is a number"], *x, "dout=2.0")
        self.fail_with(2, ["unknown operand 'dy'"], *x, "dy=f32[4]")
        self.fail_with(2, ["--inplace x", "--gradient"], *x, "--inplace", "x")
        self.fail_with(2, ["--gradient x: the operand is i32"], "run", "x * 2", "x=i32[4]", "--gradient", "x")


class Summary(ToolTest):
    def test_text(self):
        write_npy(self.folder / "x.npy", "f4", [1.0, -2.0, float("nan"), 4.0])
        out = self.succeed("run", "x * 2", "x=@x.npy", "--device", "cpu")
        self.assertIn("out: f32 [4]", out)
        self.assertIn("min -4  max 8  mean 2  1 NaN", out)
        self.assertIn("2 -4 nan 8", out)

    def test_json(self):
        write_npy(self.folder / "x.npy", "f4", [1.0, -2.0, float("nan"), float("inf")])
        result = self.json_of("run", "y = x * 2; return y, isnan(x)", "x=@x.npy", "--device", "cpu", "-o", "y.npy")
        self.assertEqual(result["device"], "cpu")
        first, second = result["results"]
        self.assertEqual((first["name"], first["dtype"], first["shape"], first["file"]), ("y", "f32", [4], "y.npy"))
        self.assertEqual((first["nans"], first["min"], first["max"], first["mean"]), (1, -4, "inf", "inf"))
        self.assertEqual(first["first"], [2, -4, "nan", "inf"])
        self.assertEqual((second["dtype"], second["first"], second["file"]), ("bool", [False, False, True, False], None))

    def test_numbers_are_numbers(self):
        write_npy(self.folder / "x.npy", "f4", [0.1, 1e-30, 16777216.0])
        for dtype, expected in (("f32", [0.1, 1e-30, 16777216]), ("f64", None), ("f16", [0.099976, 0, "inf"]), ("bf16", None),
                                ("i32", [0, 0, 16777216]), ("u8", [0, 0, 255]), ("bool", [True, True, True]), ("i64", [0, 0, 16777216])):
            with self.subTest(dtype=dtype):
                first = self.json_of("run", "x", "x=@x.npy", "--out", dtype, "--device", "cpu")["results"][0]["first"]
                self.assertFalse([value for value in first if isinstance(value, str) and value != "inf"], first)
                if expected is not None:
                    self.assertEqual([(type(v) is bool, v) for v in first], [(type(v) is bool, v) for v in expected])

    def test_only_nan(self):
        write_npy(self.folder / "x.npy", "f4", [float("nan")] * 3)
        result = self.json_of("run", "x", "x=@x.npy", "--device", "cpu")["results"][0]
        self.assertEqual((result["nans"], result["min"], result["mean"]), (3, "nan", "nan"))

    def test_large_integers(self):
        write_npy(self.folder / "x.npy", "i8", [2**53 - 1, -(2**40)])
        result = self.json_of("run", "x", "x=@x.npy", "--out", "i64", "--device", "cpu")["results"][0]
        self.assertEqual(result["first"], [2**53 - 1, -(2**40)])


class Devices(ToolTest):
    def test_names(self):
        for device in ("gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:1", ""):
            with self.subTest(device=device):
                self.fail_with(2, [], "run", "x", "x=f32[4]", "--device", device)

    def test_automatic(self):
        expected = "cuda:0" if gpu_works() else "cpu"
        self.assertEqual(self.json_of("run", "x", "x=f32[4]")["device"], expected)

    def test_no_driver(self):
        env = {"EPIFUSE_LIBCUDA": "/nonexistent/libcuda.so.1"}
        error = self.fail_with(1, ["driver"], "run", "x", "x=f32[4]", "--device", "cuda:0", "-o", "y.npy", env=env)
        self.assertIn("/nonexistent/libcuda.so.1", error)
        self.assertEqual(self.json_of("run", "x", "x=f32[4]", env=env)["device"], "cpu")

    def test_a_driver_that_cannot_work_here(self):
        for version, init, says in (("11080", "0", "supports CUDA 11.8, and EpiFuse needs 12.0"),
                                    ("12080", "803", "does not fit the kernel driver"),
                                    ("12080", "100", "finds no GPU")):
            with self.subTest(version=version, init=init):
                env = {"EPIFUSE_LIBCUDA": os.environ["EPIFUSE_FAKE_LIBCUDA"], "ATTACK_CUDA_VERSION": version, "ATTACK_CUDA_INIT": init}
                self.fail_with(1, [says], "run", "x", "x=f32[4]", "--device", "cuda:0", "-o", "y.npy", env=env)

    def test_no_such_gpu(self):
        self.fail_with(1, [], "run", "x", "x=f32[4]", "--device", "cuda:99")


if __name__ == "__main__":
    main()
