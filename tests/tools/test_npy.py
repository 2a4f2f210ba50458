"""`.npy` in and out: every type, order, byte order and version; malformed files; nothing half written."""

import itertools
import os
import stat
import unittest

from support import CODES, NAMES, ToolTest, header, main, npy_bytes, read_npy, write_npy

try:
    import numpy
except ImportError:
    numpy = None

VALUES = {
    "f2": [0.0, -0.5, 1.5, 65504.0, 2.0**-24, -2.0],
    "f4": [0.0, -0.5, 1.5, 2.0**127, 2.0**-149, -2.0],
    "f8": [0.0, -0.5, 1.5, 1.0e308, 5.0e-324, -1.0 / 3],
    "i1": [0, -128, 127, 1, -1, 2],
    "u1": [0, 255, 127, 1, 128, 2],
    "i2": [0, -(2**15), 2**15 - 1, 1, -1, 2],
    "u2": [0, 2**16 - 1, 2**15, 1, 2, 3],
    "u4": [0, 2**32 - 1, 2**31, 1, 2**24 + 1, 2],
    "i4": [0, -(2**31), 2**31 - 1, 1, -1, 2**24 + 1],
    "i8": [0, -(2**53), 2**53, 1, -1, 2**40 + 1],
    "b1": [False, True, True, False, True, False],
}


class RoundTrip(ToolTest):
    def test_types_byte_orders_and_versions(self):
        for code, endian, version in itertools.product(CODES, "<>", (1, 2, 3)):
            with self.subTest(code=code, endian=endian, version=version):
                write_npy(self.folder / "x.npy", code, VALUES[code], (2, 3), endian, version=version)
                self.succeed("run", "x", "x=@x.npy", "--out", NAMES[code], "-o", "y.npy", "--device", "cpu")
                self.assertEqual(read_npy(self.folder / "y.npy"), (code, VALUES[code], (2, 3), False))

    def test_column_major_keeps_its_meaning(self):
        for code in CODES:
            with self.subTest(code=code):
                write_npy(self.folder / "x.npy", code, VALUES[code], (2, 3), fortran=True)
                self.succeed("run", "x", "x=@x.npy", "--out", NAMES[code], "-o", "y.npy", "--device", "cpu")
                a, b, c, d, e, f = VALUES[code]
                self.assertEqual(read_npy(self.folder / "y.npy"), (code, [a, c, e, b, d, f], (2, 3), False))

    def test_column_major_result(self):
        write_npy(self.folder / "x.npy", "f4", [1, 2, 3, 4, 5, 6], (2, 3))
        self.succeed("run", "x", "x=@x.npy", "--out", "f32:colmajor", "-o", "y.npy", "--device", "cpu")
        self.assertEqual(read_npy(self.folder / "y.npy"), ("f4", [1, 4, 2, 5, 3, 6], (2, 3), True))

    def test_shapes(self):
        for shape in ((), (1,), (6,), (6, 1), (1, 2, 3), (1, 1, 1, 2, 1, 1, 3, 1), (0,), (3, 0, 2)):
            with self.subTest(shape=shape):
                count = 1
                for extent in shape:
                    count *= extent
                values = [float(i) for i in range(count)]
                write_npy(self.folder / "x.npy", "f4", values, shape)
                self.succeed("run", "x + 1", "x=@x.npy", "-o", "y.npy", "--device", "cpu")
                self.assertEqual(read_npy(self.folder / "y.npy"), ("f4", [v + 1 for v in values], shape, False))

    def test_strided_result_is_written_without_its_gaps(self):
        write_npy(self.folder / "x.npy", "f4", [1, 2, 3, 4, 5, 6], (2, 3))
        self.succeed("run", "x", "x=@x.npy", "--out", "f32:strides(10,3):offset(1)", "-o", "y.npy", "--device", "cpu")
        self.assertEqual(read_npy(self.folder / "y.npy"), ("f4", [1, 2, 3, 4, 5, 6], (2, 3), False))

    def test_header_spellings(self):
        data = npy_bytes(header("<f4", (1,)), b"\0\0\x80?")
        spellings = [
            "{'shape': (1,), 'fortran_order': False, 'descr': '<f4'}",
            '{"descr": "<f4", "fortran_order": False, "shape": (1L,), }',
            "{ 'descr' :'=f4','fortran_order':True , 'shape':(1,)}  ",
            "{'descr':'<f4','fortran_order':False,'shape':(1)}",
        ]
        for text in spellings:
            with self.subTest(text=text):
                (self.folder / "x.npy").write_bytes(npy_bytes(text, data[-4:]))
                self.succeed("run", "x", "x=@x.npy", "-o", "y.npy", "--device", "cpu")
                self.assertEqual(read_npy(self.folder / "y.npy")[1], [1.0])

    def test_conversion_on_load(self):
        write_npy(self.folder / "x.npy", "f4", [1 + 2.0**-9, 500.0, -0.3], (3,))
        for dtype, expected in (("bf16", [1.0, 500.0, -0.30078125]), ("f8e4m3", [1.0, 448.0, -0.3125]),
                                ("f8e5m2", [1.0, 512.0, -0.3125]), ("i8", [1, 127, 0]), ("i32", [1, 500, 0]), ("u16", [1, 500, 0]),
                                ("bool", [1, 1, 1])):
            with self.subTest(dtype=dtype):
                self.succeed("run", "x * 1.0" if dtype != "bool" else "x", f"x={dtype}@x.npy", "--out", "f32", "-o", "y.npy",
                             "--device", "cpu")
                self.assertEqual(read_npy(self.folder / "y.npy"), ("f4", expected, (3,), False))

    def test_large_integers_are_converted_exactly(self):
        write_npy(self.folder / "x.npy", "i8", [2**40 + 1, -(2**53)], (2,))
        self.succeed("run", "x", "x=f64@x.npy", "-o", "y.npy", "--device", "cpu")
        self.assertEqual(read_npy(self.folder / "y.npy"), ("f8", [2.0**40 + 1, -(2.0**53)], (2,), False))

    def test_types_that_numpy_lacks_are_written_as_f32(self):
        write_npy(self.folder / "x.npy", "f4", [1 + 2.0**-9, 3.0, 1000.0], (3,))
        for dtype, expected in (("bf16", [1.0, 3.0, 1000.0]), ("f8e4m3", [1.0, 3.0, 448.0]), ("f8e5m2", [1.0, 3.0, 1024.0]), ("f8e8m0", [1.0, 4.0, 1024.0])):
            with self.subTest(dtype=dtype):
                out = self.succeed("run", "x", "x=@x.npy", "--out", dtype, "-o", "y.npy", "--device", "cpu")
                self.assertIn("(as f32)", out)
                self.assertEqual(read_npy(self.folder / "y.npy"), ("f4", expected, (3,), False))

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_numpy_agrees(self):
        for code, order in itertools.product(CODES, "CF"):
            with self.subTest(code=code, order=order):
                x = numpy.asarray(VALUES[code], dtype=code).reshape(2, 3).copy(order=order)
                numpy.save(self.folder / "x.npy", x)
                self.succeed("run", "x", "x=@x.npy", "--out", NAMES[code] + (":colmajor" if order == "F" else ""), "-o", "y.npy",
                             "--device", "cpu")
                y = numpy.load(self.folder / "y.npy")
                self.assertEqual(y.dtype, x.dtype)
                numpy.testing.assert_array_equal(y, x)
                self.assertEqual(y.flags.f_contiguous, order == "F")


GOOD = header("<f4", (2,))
EIGHT = bytes(8)
MALFORMED = {
    "empty": (b"", "does not begin"),
    "magic": (b"\x93NUMPX" + npy_bytes(GOOD, EIGHT)[6:], "does not begin"),
    "text": (b"1.0, 2.0\n", "does not begin"),
    "version 0": (b"\x93NUMPY\x00\x00" + npy_bytes(GOOD, EIGHT)[8:], "version 0"),
    "version 4": (b"\x93NUMPY\x04\x00" + npy_bytes(GOOD, EIGHT)[8:], "version 4"),
    "ends in the prelude": (npy_bytes(GOOD, EIGHT)[:9], "ends after 9 bytes"),
    "ends in the header": (npy_bytes(GOOD, EIGHT)[:40], "ends after 40 bytes"),
    "header length": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"{}", "claims"),
    "no data": (npy_bytes(GOOD, b""), "0 bytes of data; expected 8"),
    "short data": (npy_bytes(GOOD, EIGHT[:7]), "7 bytes of data; expected 8"),
    "trailing garbage": (npy_bytes(GOOD, EIGHT + b"x"), "9 bytes of data; expected 8"),
    "no dictionary": (npy_bytes("[]", EIGHT), "expected '{'"),
    "not closed": (npy_bytes(GOOD.rstrip("} ,"), EIGHT), "malformed"),
    "text after the dictionary": (npy_bytes(GOOD + "x", EIGHT), "nothing may follow"),
    "code": (npy_bytes("{'descr': __import__('os'), 'fortran_order': False, 'shape': (2,)}", EIGHT), "quoted string"),
    "missing shape": (npy_bytes("{'descr': '<f4', 'fortran_order': False}", EIGHT), "no 'shape'"),
    "missing descr": (npy_bytes("{'fortran_order': False, 'shape': (2,)}", EIGHT), "no 'descr'"),
    "missing order": (npy_bytes("{'descr': '<f4', 'shape': (2,)}", EIGHT), "no 'fortran_order'"),
    "empty dictionary": (npy_bytes("{}", EIGHT), "no 'descr'"),
    "unknown key": (npy_bytes(GOOD[:-1] + "'more': 1}", EIGHT), "'more'"),
    "repeated key": (npy_bytes(GOOD[:-1] + "'descr': '<f8'}", EIGHT), "'descr'"),
    "order": (npy_bytes("{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}", EIGHT), "True or False"),
    "quote": (npy_bytes("{'descr: 1}", EIGHT), "closing quote"),
    "type": (npy_bytes(header("<u8", (1,)), EIGHT), "'<u8'"),
    "complex": (npy_bytes(header("<c8", (1,)), EIGHT), "'<c8'"),
    "objects": (npy_bytes(header("|O", (1,)), EIGHT), "'|O'"),
    "strings": (npy_bytes(header("<U2", (1,)), EIGHT), "'<U2'"),
    "empty type": (npy_bytes(header("", (2,)), EIGHT), "''"),
    "order of bytes": (npy_bytes(header("|f4", (2,)), EIGHT), "'|f4'"),
    "no order of bytes": (npy_bytes(header("f4", (2,)), EIGHT), "'f4'"),
    "records": (npy_bytes("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", EIGHT), "records"),
    "negative extent": (npy_bytes(header("<f4", (-2,)), EIGHT), "-2"),
    "huge extent": (npy_bytes(header("<f4", (2**63,)), EIGHT), "64 bits"),
    "huge shape": (npy_bytes(header("<f4", (2**40, 2**40)), EIGHT), "64-bit"),
    "wraps to the right size": (npy_bytes(header("<f4", (2**62, 2**2, 1)), b""), "64-bit"),
    "huge beside nothing": (npy_bytes(header("<f4", (0, 2**62, 2**62), True), b""), "2^40 elements"),
    "more than the file": (npy_bytes(header("<f4", (2**40,)), EIGHT), "8 bytes of data"),
    "nine dimensions": (npy_bytes(header("<f4", (1,) * 9), bytes(4)), "9 dimensions"),
    "shape is a list": (npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': [2]}", EIGHT), "expected '('"),
    "shape of names": (npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (a,)}", EIGHT), "extent"),
    "shape without commas": (npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", EIGHT), "expected ','"),
    "control characters": (npy_bytes(header("<\x1b]0;owned\x07", (2,)), EIGHT), "holds elements"),
}


class Malformed(ToolTest):
    def test_each_is_refused_with_a_sentence(self):
        for name, (content, fragment) in MALFORMED.items():
            with self.subTest(name=name):
                (self.folder / "bad.npy").write_bytes(content)
                for command in (["run", "-o", "y.npy", "--device", "cpu"], ["dump", "--emit", "plan"]):
                    error = self.fail_with(2, ["operand 'x'", fragment], command[0], "x", "x=@bad.npy", *command[1:])
                    self.assertTrue(error.rstrip("\n").isprintable(), repr(error))

    def test_truncation_at_every_byte(self):
        content = npy_bytes(header("<f4", (2, 2)), bytes(16))
        for size in range(0, len(content)):
            (self.folder / "bad.npy").write_bytes(content[:size])
            self.fail_with(2, ["operand 'x'"], "dump", "x", "x=@bad.npy", "--emit", "ir")

    def test_files_that_cannot_be_read(self):
        (self.folder / "folder.npy").mkdir()
        self.fail_with(2, ["operand 'x'", "missing.npy", "No such file"], "run", "x", "x=@missing.npy", "-o", "y.npy")
        self.fail_with(2, ["operand 'x'", "folder.npy", "regular file"], "run", "x", "x=@folder.npy", "-o", "y.npy")
        self.fail_with(2, ["operand 'x'", "no file name"], "run", "x", "x=@", "-o", "y.npy")
        if os.getuid() != 0:
            write_npy(self.folder / "secret.npy", "f4", [1.0])
            (self.folder / "secret.npy").chmod(0)
            self.fail_with(2, ["operand 'x'", "secret.npy", "denied"], "run", "x", "x=@secret.npy")


class Writing(ToolTest):
    def test_targets_that_cannot_be_files(self):
        (self.folder / "folder").mkdir()
        run = ("run", "x", "x=f32[4]", "--device", "cpu")
        self.fail_with(2, ["nowhere", "does not exist"], *run, "-o", "nowhere/y.npy")
        self.fail_with(2, ["folder", "is a folder"], *run, "-o", "folder")
        self.fail_with(2, ["one file too many"], *run, "-o", "y.npy", "-o", "z.npy")
        self.fail_with(2, ["no result is called 'mask'", "out"], "run", "x + 1", *run[2:], "-o", "mask=y.npy")
        two = ("run", "return x, x > 0", "x=f32[4]", "--device", "cpu")
        self.fail_with(2, ["named twice"], *two, "-o", "y.npy", "-o", "./y.npy")
        self.fail_with(2, ["already has a file"], *two, "-o", "y.npy", "-o", "out0=z.npy")

    def test_a_failed_run_leaves_what_was_there(self):
        (self.folder / "y.npy").write_bytes(b"old")
        self.fail_with(2, ["broadcast"], "run", "x + b", "x=f32[4]", "b=f32[3]", "-o", "y.npy", "--device", "cpu")
        self.assertEqual((self.folder / "y.npy").read_bytes(), b"old")

    def test_a_failing_second_file_leaves_neither(self):
        # /dev/full takes the place of a full disk: it accepts no byte.
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        self.fail_with(1, ["/dev/full", "cannot be written"], "run", "return x, x > 0", "x=f32[4]", "--device", "cpu", "-o",
                       "y.npy", "-o", "/dev/full")

    def test_results_replace_files_with_usual_permissions(self):
        (self.folder / "y.npy").write_bytes(b"old")
        self.succeed("run", "x", "x=f32[4]", "-o", "y.npy", "--device", "cpu")
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(stat.S_IMODE((self.folder / "y.npy").stat().st_mode), 0o666 & ~mask)
        self.assertEqual(read_npy(self.folder / "y.npy")[2], (4,))
        self.assertEqual([p.name for p in self.folder.iterdir()], ["y.npy"])

    def test_links_are_followed_and_devices_kept(self):
        (self.folder / "real.npy").write_bytes(b"old")
        (self.folder / "link.npy").symlink_to("real.npy")
        self.succeed("run", "x", "x=f32[4]", "-o", "link.npy", "--device", "cpu")
        self.assertTrue((self.folder / "link.npy").is_symlink())
        self.assertEqual(read_npy(self.folder / "real.npy")[2], (4,))
        self.succeed("run", "x", "x=f32[4]", "-o", "/dev/null", "--device", "cpu")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    def test_a_result_may_replace_its_operand(self):
        write_npy(self.folder / "x.npy", "f4", [1.0, -1.0])
        self.succeed("run", "relu(x)", "x=@x.npy", "-o", "x.npy", "--device", "cpu")
        self.assertEqual(read_npy(self.folder / "x.npy")[1], [1.0, 0.0])

    def test_results_by_name_and_in_order(self):
        write_npy(self.folder / "x.npy", "f4", [1.0, -1.0])
        self.succeed("run", "y = relu(x); mask = x > 0; return y, mask", "x=@x.npy", "-o", "mask=m.npy", "-o", "y.npy", "--device",
                     "cpu")
        self.assertEqual(read_npy(self.folder / "y.npy"), ("f4", [1.0, 0.0], (2,), False))
        self.assertEqual(read_npy(self.folder / "m.npy"), ("b1", [True, False], (2,), False))


if __name__ == "__main__":
    main()
