"""The grammar of name=value: scalars, random data, layouts, types of results."""

import math

from support import ToolTest, main, read_npy, write_npy

ALL_TYPES = ["f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "f8e8m0", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "bool"]


class Random(ToolTest):
    def values(self, operand, *more, out="f64"):
        self.succeed("run", "x", operand, "--out", out, "-o", "y.npy", "--device", "cpu", *more)
        return read_npy(self.folder / "y.npy")[1]

    def test_types_have_the_names_of_numpy_and_pytorch(self):
        names = {"float64": "f64", "double": "f64", "float32": "f32", "float": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16",
                 "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "float8_e8m0fnu": "f8e8m0", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "uint32": "u32", "int32": "i32", "int64": "i64", "bool_": "bool"}
        for name, expected in names.items():
            result = self.json_of("run", "x", f"x={name}[4]", "--out", name, "--device", "cpu")
            self.assertEqual(result["results"][0]["dtype"], expected, name)

    def test_seeded(self):
        first = self.values("x=f32[100]")
        self.assertEqual(first, self.values("x=f32[100]"))
        self.assertEqual(first, self.values("x=f32[100]", "--seed", "0"))
        self.assertNotEqual(first, self.values("x=f32[100]", "--seed", "1"))

    def test_names_have_data_of_their_own(self):
        self.succeed("run", "return a, b", "a=f32[100]", "b=f32[100]", "-o", "a.npy", "-o", "b.npy", "--device", "cpu")
        self.assertNotEqual(read_npy(self.folder / "a.npy")[1], read_npy(self.folder / "b.npy")[1])

    def test_floats_are_normal(self):
        for dtype in ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"):
            with self.subTest(dtype=dtype):
                x = self.values(f"x={dtype}[200,500]")
                mean = sum(x) / len(x)
                deviation = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x))
                within = sum(abs(v) < 1 for v in x) / len(x)
                self.assertLess(abs(mean), 0.02)
                self.assertLess(abs(deviation - 1), 0.03)
                self.assertLess(abs(within - 0.6827), 0.06)  # fp8's steps near 1 are wide

    def test_integers_fill_their_range(self):
        for dtype, low, high in (("i8", -128, 127), ("u8", 0, 255), ("i16", -1000, 1000), ("u16", 0, 2000), ("i32", -1000, 1000),
                                 ("u32", 0, 2000), ("i64", -1000, 1000)):
            with self.subTest(dtype=dtype):
                x = self.values(f"x={dtype}[100000]", out="i64")
                self.assertEqual((min(x), max(x)), (low, high))
                self.assertLess(abs(sum(x) / len(x) - (low + high) / 2), (high - low) / 100)

    def test_bool_is_a_fair_coin(self):
        x = self.values("x=bool[100000]", out="bool")
        self.assertLess(abs(sum(x) / len(x) - 0.5), 0.01)

    def test_layouts_do_not_change_the_data(self):
        plain = self.values("x=f32[2,3,4,5]")
        for layout in (":nhwc", ":colmajor", ":strides(200,-60,15,3)", ":offset(3)", ":nhwc:offset(1)"):
            with self.subTest(layout=layout):
                self.assertEqual(self.values(f"x=f32[2,3,4,5]{layout}"), plain)

    def test_stride_zero_repeats(self):
        x = self.values("x=f32[4,3]:strides(0,1)")
        self.assertEqual(x[:3] * 4, x)
        # Where elements share memory, the last one's data is there, however many threads there are.
        plain = self.values("x=f32[4,3]")
        self.assertEqual(x, plain[-3:] * 4)
        self.assertEqual(self.values("x=f32[3]:strides(0)"), self.values("x=f32[3]")[-1:] * 3)

    def test_single_element(self):
        self.assertEqual(self.values("x=f32[]"), self.values("x=f32[1,1]"))

    def test_odd_counts_and_pieces(self):
        long = self.values("x=f32[40001]")
        self.assertEqual(self.values("x=f32[16385]"), long[:16385])
        self.assertEqual(self.values("x=f32[1]"), long[:1])


class Results(ToolTest):
    def types(self, *arguments):
        return [r["dtype"] for r in self.json_of("run", *arguments, "--device", "cpu")["results"]]

    def test_default_types(self):
        cases = [
            (["x + b", "x=f16[4,8]", "b=f32[8]"], ["f32"]),
            (["b + x", "x=bf16[4,8]", "b=bf16[8]"], ["bf16"]),
            (["x + b", "x=bf16[4,8]", "b=f32[]"], ["bf16"]),
            (["x * 2", "x=i32[8]"], ["i32"]),
            (["x * 2.0", "x=i32[8]"], ["f32"]),
            (["x * alpha", "x=i32[8]", "alpha=2"], ["f32"]),
            (["x / y", "x=i32[8]", "y=i32[8]"], ["f32"]),
            (["x * 2", "x=bool[8]"], ["i64"]),
            (["sum(x)", "x=i8[8]"], ["i64"]),
            (["cast(x + 1, f32)", "x=f16[8]"], ["f32"]),
            (["s = amax(x); return cast(x / s, f8e4m3), s", "x=f16[8]"], ["f8e4m3", "f16"]),
            (["x + y", "x=i8[8]", "y=u8[8]"], ["i16"]),
            (["x + y", "x=f8e4m3[8]", "y=f8e5m2[8]"], ["f16"]),
            (["x > 0", "x=f16[8]"], ["bool"]),
            (["not (x > 0)", "x=f16[8]"], ["bool"]),
            (["isnan(x) or isinf(x)", "x=f16[8]"], ["bool"]),
            (["x", "x=bool[8]"], ["bool"]),
            (["where(x > 0, x, 0)", "x=f16[8]"], ["f16"]),
            (["y = relu(x); return y, y > 0", "x=f64[8]"], ["f64", "bool"]),
            (["1 + 2"], ["i64"]),
            (["1 / 2"], ["f32"]),
        ]
        for arguments, expected in cases:
            with self.subTest(arguments=arguments):
                self.assertEqual(self.types(*arguments), expected)

    def test_chosen_types(self):
        for dtype in ALL_TYPES:
            with self.subTest(dtype=dtype):
                self.assertEqual(self.types("x * 1.0", "x=f32[8]", "--out", dtype), [dtype])
        two = ["y = relu(x); return y, y > 0", "x=f32[8]"]
        self.assertEqual(self.types(*two, "--out", "f16,u8"), ["f16", "u8"])
        self.assertEqual(self.types(*two, "--out", "f16", "--out", "u8"), ["f16", "u8"])
        self.assertEqual(self.types(*two, "--out", "f16"), ["f16", "bool"])
        self.assertEqual(self.types(*two, "--out", ",f16"), ["f32", "f16"])

    def test_layouts_of_results(self):
        result = self.json_of("run", "x", "x=f16[2,3,4,5]", "--out", ":nhwc", "--device", "cpu")["results"][0]
        self.assertEqual((result["dtype"], result["strides"]), ("f16", [60, 1, 15, 3]))
        result = self.json_of("run", "x", "x=f16[4,5]", "--out", "f32:colmajor(7):offset(2)", "--device", "cpu")["results"][0]
        self.assertEqual((result["strides"], result["offset"]), ([1, 7], 2))

    def test_every_type_in_and_out(self):
        for dtype in ALL_TYPES:
            with self.subTest(dtype=dtype):
                out = self.json_of("run", "x", f"x={dtype}[64]", "--out", "f64", "--device", "cpu")["results"][0]
                self.assertEqual((out["elements"], out["nans"]), (64, 0))
                self.assertGreater(out["max"], out["min"])


class Scalars(ToolTest):
    def test_values(self):
        write_npy(self.folder / "x.npy", "f8", [1.0, 2.0])
        for text, factor in (("2.0", 2.0), ("-3", -3.0), ("+1e-3", 1e-3), ("inf", math.inf), ("-inf", -math.inf), (".5", 0.5)):
            with self.subTest(text=text):
                self.succeed("run", "x * alpha", "x=@x.npy", f"alpha={text}", "-o", "y.npy", "--device", "cpu")
                self.assertEqual(read_npy(self.folder / "y.npy")[1], [factor, 2 * factor])

    def test_declared_in_the_chain(self):
        write_npy(self.folder / "x.npy", "f4", [1.0, 2.0])
        self.succeed("run", "scalar alpha; x * alpha", "x=@x.npy", "alpha=2", "-o", "y.npy", "--device", "cpu")
        self.assertEqual(read_npy(self.folder / "y.npy")[1], [2.0, 4.0])


if __name__ == "__main__":
    main()
