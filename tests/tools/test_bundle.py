"""`epifuse bundle` and `epifuse warm --arch`, from outside: what they write, what they show, and what they refuse. With a compiler that knows
sm_80 and sm_90 and makes no real kernels; no GPU."""

import json
import os
import pathlib
import pty
import shutil
import stat
import subprocess

from support import TOOL, ToolTest, main

FAKE = os.environ.get("EPIFUSE_FAKE_NVRTC", "")
LIST = '''# comment
"relu(x + bias)" x=f16[8,16] bias=f32[16]

"softmax(x, -1)" x=f32[64,1000] --out f16
--math precise -- "-x * a" x=f16[8,16]:offset(1) a=2
'''
# Writes the bytes, if both ways to them are one.
MAIN = """#include <cstdio>
#include <epifuse/engine.hpp>
epifuse::Bundle kernels();
extern "C" const void* kernels_data();
extern "C" std::size_t kernels_size();
int main() {
  epifuse::EngineOptions options;
  options.bundles = {kernels()};
  return std::fwrite(kernels_data(), 1, kernels_size(), stdout) == kernels_size() ? 0 : 1;
}
"""


class BundleTest(ToolTest):
    def setUp(self):
        super().setUp()
        (self.folder / "list").write_text(LIST)
        self.cache = self.folder / "cache"

    def run_tool(self, *arguments, **options):
        options["env"] = {"EPIFUSE_NVRTC": FAKE, "EPIFUSE_CACHE_DIR": str(self.cache), "EPIFUSE_LIBCUDA": "/nonexistent"} | options.get("env", {})
        return super().run_tool(*arguments, **options)

    def make(self, *more, name="kernels.epifuse", arch="sm_80,90"):
        return self.succeed("bundle", "list", "--arch", arch, "-o", name, *more)


class Making(BundleTest):
    def test_each_launch_for_each_architecture(self):
        text = self.make()
        self.assertRegex(text, r"^3 launches: 6 kernels, 6 compiled in .*, 0 from disk -> kernels.epifuse \(.*B\)\n$")
        shown = self.json_of("bundle", "--list", "kernels.epifuse")
        self.assertEqual(sorted(kernel["architecture"] for kernel in shown["kernels"]), [80, 80, 80, 90, 90, 90])
        self.assertEqual(len({kernel["key"] for kernel in shown["kernels"]}), 6)
        self.assertEqual(shown["bad"], 0)
        text = self.succeed("bundle", "--list", "kernels.epifuse")
        self.assertIn("sm_90  relu(x + bias)\n", text)
        self.assertIn("6 kernels", text.splitlines()[-1])

    def test_the_same_list_gives_the_same_bytes(self):
        self.make()
        (self.folder / "list").write_text("\n".join(reversed(LIST.splitlines())) + "\n" + LIST)  # in another order, and twice
        report = json.loads(self.succeed("bundle", "list", "--arch", "90,80", "-o", "again", "--json", "--threads", "1"))
        self.assertEqual((self.folder / "again").read_bytes(), (self.folder / "kernels.epifuse").read_bytes())
        self.assertEqual((report["kernels"], report["compiled"], report["from_disk"]), (6, 0, 6))

    def test_a_line_may_name_its_own_gpu(self):
        (self.folder / "list").write_text('"x + 1" x=f32[8] --arch sm_80\n"x + 2" x=f32[8] --arch sm_90:114:1000000,80\n')
        self.succeed("bundle", "list", "-o", "k")
        self.assertEqual(len(self.json_of("bundle", "--list", "k")["kernels"]), 3)
        self.succeed("bundle", "list", "-o", "k", "--arch", "90")
        self.assertEqual(len(self.json_of("bundle", "--list", "k")["kernels"]), 4)

    def test_nobody_else_may_write_it(self):
        done = subprocess.run(["bash", "-c", 'umask 0; exec "$0" bundle list --arch 90 -o k', os.path.abspath(TOOL)], cwd=self.folder, check=False,
                              env=dict(os.environ, EPIFUSE_NVRTC=FAKE, EPIFUSE_CACHE="off"), capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(stat.S_IMODE((self.folder / "k").stat().st_mode), 0o644)

    def test_a_source_to_link(self):
        self.make()
        self.make("--emit", "cpp", name="my-kernels.v1.cpp")
        source = (self.folder / "my-kernels.v1.cpp").read_text()
        self.assertIn("epifuse::Bundle my_kernels()", source)
        self.assertIn('extern "C" const void* my_kernels_data()', source)
        self.make("--emit", "cpp", "--name", "other", name="k.cpp")
        self.assertIn("epifuse::Bundle other()", (self.folder / "k.cpp").read_text())
        words = source.split("kWords[] = {")[1].split("}")[0].replace("\n", "").split(",")[:-1]
        whole = b"".join(int(word, 16).to_bytes(8, "little") for word in words)
        size = int(source.split("kSize = ")[1].split(";")[0])
        self.assertEqual(whole[:size], (self.folder / "kernels.epifuse").read_bytes())
        self.assertEqual(whole[size:].strip(b"\0"), b"")

    def test_what_it_defines_compiles_and_links(self):
        compiler = shutil.which(os.environ.get("CXX", "c++"))
        if compiler is None:
            self.skipTest("there is no C++ compiler here")
        self.make()
        self.make("--emit", "cpp", name="kernels.cpp")
        (self.folder / "main.cpp").write_text(MAIN)
        include = pathlib.Path(__file__).resolve().parents[2] / "include"
        subprocess.run([compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{include}", "main.cpp", "kernels.cpp", "-o", "main"],
                       cwd=self.folder, check=True)
        written = subprocess.run([self.folder / "main"], check=True, capture_output=True).stdout
        self.assertEqual(written, (self.folder / "kernels.epifuse").read_bytes())

    def test_progress_on_a_terminal(self):
        leader, follower = pty.openpty()
        with subprocess.Popen([os.path.abspath(TOOL), "bundle", "list", "--arch", "80,90", "-o", "k"], cwd=self.folder, stdout=subprocess.DEVNULL,
                              stderr=follower, env=dict(os.environ, EPIFUSE_NVRTC=FAKE, EPIFUSE_CACHE="off")) as process:
            os.close(follower)
            text = b""
            while True:
                try:
                    piece = os.read(leader, 4096)
                except OSError:  # Linux: the other side is closed
                    break
                if not piece:
                    break
                text += piece
            self.assertEqual(process.wait(timeout=60), 0)
        os.close(leader)
        self.assertIn("5 of 6, the last in ", text.decode())

    def test_the_disk_cache_is_filled_alike(self):
        report = json.loads(self.succeed("warm", "list", "--arch", "sm_80,sm_90", "--json"))
        self.assertEqual((report["launches"], report["kernels"], report["compiled"]), (3, 6, 6))
        self.assertEqual(len(list(self.cache.glob("*.image"))), 6)
        self.assertRegex(self.make(), "6 kernels, 0 compiled in .*, 6 from disk")
        self.assertRegex(self.succeed("warm", "list", "--arch", "80"), "^3 launches: 3 kernels, 0 compiled in .*, 3 from disk\n$")


class Refusing(BundleTest):
    def test_nothing_is_written_where_a_line_fails(self):
        for line, fragments in (('"relu(" x=f16[8]', ["list, line 6: ", "1 of 4 launches failed"]),
                                ('"x + 1" x=f16[8] --arch sm_120', ["list, line 6: ", "sm_120; it compiles for sm_80, sm_90"]),
                                ('"x + 1" x=f16[8] --arch nonsense', ["list, line 6: ", "--arch"]),
                                ('"x" y=f16[8]', ["unknown operand"])):
            with self.subTest(line=line):
                (self.folder / "list").write_text(LIST + line + "\n")
                self.fail_with(2, fragments, "bundle", "list", "--arch", "90", "-o", "k")

    def test_lists_without_launches(self):
        for text, fragments in (("", ["no launch is in it"]), ("# only a comment\n\n", ["no launch is in it"]),
                                ('"x + 1" x=f32[0]\n', ["no launch in it has elements"])):
            with self.subTest(text=text):
                (self.folder / "list").write_text(text)
                self.fail_with(2, fragments, "bundle", "list", "--arch", "90", "-o", "k")
        self.fail_with(2, ["cannot be read"], "bundle", "missing", "--arch", "90", "-o", "k")
        self.fail_with(2, ["cannot be read"], "bundle", ".", "--arch", "90", "-o", "k")

    def test_what_is_missing(self):
        self.fail_with(2, ["line 2: no GPU is named; add --arch sm_90"], "bundle", "list", "-o", "k")
        self.fail_with(2, ["-o is missing"], "bundle", "list", "--arch", "90")
        self.fail_with(2, ["either a list"], "bundle")
        self.make()
        self.fail_with(2, ["either a list"], "bundle", "list", "--list", "kernels.epifuse")
        self.fail_with(2, ["-o and --arch are for making one"], "bundle", "--list", "kernels.epifuse", "-o", "k")
        done = self.fail_with(1, ["EPIFUSE_NVRTC is /nonexistent"], "bundle", "list", "--arch", "80", "-o", "k",
                              env={"EPIFUSE_NVRTC": "/nonexistent"})
        self.assertEqual(done.count("EPIFUSE_NVRTC"), 1, "told once, not for each line")

    def test_what_is_no_bundle(self):
        self.make()
        whole = (self.folder / "kernels.epifuse").read_bytes()
        flipped = bytearray(whole)
        flipped[-20] ^= 1
        cases = {"empty": (b"", "is empty"), "list": (LIST.encode(), "is no bundle"), "cut": (whole[:50], "is cut short"),
                 "half": (whole[:len(whole) // 2], "were written"), "longer": (whole + b"x", "were written"),
                 "version": (whole[:16] + b"9.9.9\0" + whole[22:], "is of version 9.9.9 of EpiFuse"),
                 "format": (whole[:8] + b"\7" + whole[9:], "format 7"), "index": (whole[:80] + b"!!" + whole[82:], "is damaged")}
        for name, (content, text) in cases.items():
            with self.subTest(name=name):
                (self.folder / "case").write_bytes(content)
                self.fail_with(2, ["the bundle 'case'", text], "bundle", "--list", "case")
        (self.folder / "case").write_bytes(flipped)
        done = self.run_tool("bundle", "--list", "case")
        self.assertEqual(done.returncode, 2)
        self.assertIn("BAD: its ", done.stdout)
        self.assertIn("has 1 damaged kernels", done.stderr)
        (self.folder / "kernels.epifuse").chmod(0o666)
        self.fail_with(2, ["chmod go-w"], "bundle", "--list", "kernels.epifuse")
        if os.getuid() != 0:
            (self.folder / "kernels.epifuse").chmod(0)
            self.fail_with(2, ["Permission denied"], "bundle", "--list", "kernels.epifuse")


if __name__ == "__main__":
    main()
