"""Runs the epifuse command in a folder of its own. Also .npy files in plain Python, written from NumPy's description of the
format and from nothing in this repository, so that the tool's reader and writer meet an independent judge."""

import ast
import functools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = os.environ.get("EPIFUSE_TOOL", "build/tools/epifuse")
SKIPPED = 77  # ctest's SKIP_RETURN_CODE

# struct's letter for each NumPy type code
CODES = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "u4": "I", "i4": "i", "i8": "q", "b1": "?"}
NAMES = {"f2": "f16", "f4": "f32", "f8": "f64", "i1": "i8", "u1": "u8", "i2": "i16", "u2": "u16", "u4": "u32", "i4": "i32", "i8": "i64", "b1": "bool"}


def epifuse(*arguments, cwd=None, env=None, timeout=120):
    """The finished process; text in and out, no terminal, a cache that is not the user's."""
    settings = dict(os.environ, EPIFUSE_CACHE_DIR=os.path.join(tempfile.gettempdir(), f"epifuse-test-cache-{os.getuid()}"))
    settings.update(env or {})
    return subprocess.run([os.path.abspath(TOOL), *map(str, arguments)], cwd=cwd, env=settings, timeout=timeout,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)


@functools.cache
def doctor():
    return json.loads(epifuse("doctor", "--json").stdout)


def gpu_works():
    return any(t["works"] for t in doctor()["tried"] if t["device"].startswith("cuda"))


def nvrtc_found():
    return doctor()["nvrtc"] is not None


class ToolTest(unittest.TestCase):
    """A fresh folder for each test; every run happens in it."""

    maxDiff = 2000

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="epifuse-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_tool(self, *arguments, **options):
        return epifuse(*arguments, cwd=self.folder, **options)

    def succeed(self, *arguments, **options):
        done = self.run_tool(*arguments, **options)
        self.assertEqual(done.returncode, 0, f"{arguments}\n{done.stderr}")
        self.assertEqual(done.stderr, "", arguments)
        return done.stdout

    def json_of(self, *arguments, **options):
        return json.loads(self.succeed(*arguments, "--json", **options))

    def fail_with(self, code, fragments, *arguments, **options):
        """Fails with that exit code, says all the fragments on standard error, nothing on standard output, and writes nothing."""
        before = self.listing()
        done = self.run_tool(*arguments, **options)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}{done.stderr}")
        self.assertTrue(done.stderr.startswith("epifuse: error: "), done.stderr)
        for fragment in fragments:
            self.assertIn(fragment, done.stderr, arguments)
        self.assertEqual(done.stdout, "", arguments)
        self.assertEqual(self.listing(), before, arguments)
        return done.stderr

    def listing(self):
        return {p.name: p.read_bytes() for p in self.folder.iterdir() if p.is_file()}


def header(descr, shape, fortran=False):
    return f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {tuple(shape)!r}, }}"


def npy_bytes(text, data, version=1):
    """A .npy file with that header text and those bytes."""
    length_format = "<H" if version == 1 else "<I"
    before = 8 + struct.calcsize(length_format)
    padded = text + " " * (-(before + len(text) + 1) % 64) + "\n"
    encoded = padded.encode("utf-8")
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(length_format, len(encoded)) + encoded + data


def write_npy(path, code, values, shape=None, endian="<", fortran=False, version=1):
    shape = (len(values),) if shape is None else shape
    order = endian if code[1] != "1" else "|"
    data = struct.pack(f"{'<' if endian == '|' else endian}{len(values)}{CODES[code]}", *values)
    Path(path).write_bytes(npy_bytes(header(order + code, shape, fortran), data, version))


def read_npy(path):
    """(type code, values as stored, shape, fortran_order)"""
    content = Path(path).read_bytes()
    assert content[:8] == b"\x93NUMPY\x01\x00", content[:8]
    (length,) = struct.unpack("<H", content[8:10])
    assert (10 + length) % 64 == 0 and content[9 + length:10 + length] == b"\n"
    fields = ast.literal_eval(content[10:10 + length].decode("ascii"))
    assert sorted(fields) == ["descr", "fortran_order", "shape"], fields
    code = fields["descr"][1:]
    assert fields["descr"][0] == ("|" if code[1] == "1" else "<"), fields
    count = 1
    for extent in fields["shape"]:
        count *= extent
    values = struct.unpack(f"<{count}{CODES[code]}", content[10 + length:])
    return code, list(values), fields["shape"], fields["fortran_order"]


def main():
    program = unittest.main(exit=False, verbosity=1)
    result = program.result
    if result.wasSuccessful() and result.testsRun > 0 and len(result.skipped) == result.testsRun:
        print(f"skipped: {result.skipped[0][1]}")
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
