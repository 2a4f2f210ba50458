"""`epifuse dump`: all six stages, as text and as JSON; the disassembler that is or is not there."""

import os
import re
import unittest

from support import ToolTest, main, nvrtc_found

CHAIN = ["sigmoid((x + bias) * scale)", "x=f16[128,32,254,254]", "bias=f32[32,1,1]", "scale=f32[32,1,1]", "--out", "f16"]
TOOLS_OFF_PATH = {"PATH": "/usr/bin:/bin", "CUDA_HOME": "", "CUDA_PATH": ""}


def disassembler_installed():
    folders = ["/usr/bin", "/bin", "/usr/local/cuda/bin"]
    return any(os.path.exists(f"{f}/{name}") for f in folders for name in ("nvdisasm", "cuobjdump"))


class Gradients(ToolTest):
    LAYER_NORM = ["layer_norm(x, w, b)", "x=f32[6,70]", "w=f32[70]", "b=f32[70]"]

    def test_says_what_connects_the_passes(self):
        text = self.succeed("dump", *self.LAYER_NORM, "--gradient", "x", "--emit", "ir")
        self.assertRegex(text, r"forward   saved_mean = mean\(x")
        self.assertRegex(text, r"dout +the gradient of out\n")
        self.assertRegex(text, r"saved_mean +saved by the forward pass\n")
        self.assertRegex(text, r"x +an operand of the forward pass\n")
        self.assertRegex(text, r"return %\d+ as dx")

    def test_plans_the_backward_pass(self):
        text = self.succeed("dump", "gelu(x + b)", "x=f16[6,70]", "b=f32[70]", "--out", "f16", "--gradient", "x,b", "--emit", "plan")
        self.assertRegex(text, r"dout +f16 +\[6, 70\]")
        self.assertRegex(text, r"dx +f16 +\[6, 70\]")
        self.assertRegex(text, r"db +f32 +\[70\]")

    def test_json(self):
        data = self.json_of("dump", "x + b", "x=f32[6,70]", "b=f32[70]", "--gradient", "b", "--emit", "plan", "--json")
        self.assertEqual(
            data["gradient"]["operands"],
            [
                {"name": "dout", "source": "gradient", "index": 0, "dtype": "f32", "shape": [6, 70]},
                {"name": "b", "source": "shape", "index": 1, "dtype": "f32", "shape": [70]},
            ],
        )

    def test_scalars_keep_their_names(self):
        text = self.succeed("dump", "gelu(x * s)", "x=f32[6]", "s=2.0", "--gradient", "x", "--emit", "cuda")
        self.assertIn("scalar_s", text)

    def test_refused(self):
        self.fail_with(2, ["no operand 'weight'", "it has: x, w, b"], "dump", *self.LAYER_NORM, "--gradient", "weight")
        self.fail_with(
            2,
            ["--gradient x: the operand is i32; integers and truth values have no gradient"],
            "dump", "x * 2", "x=i32[4]", "--gradient", "x",
        )
        self.fail_with(2, ["no gradient with respect to 'x'"], "dump", "x > 0", "x=f32[4]", "--gradient", "x")


class Stages(ToolTest):
    def test_ir(self):
        self.assertRegex(self.succeed("dump", *CHAIN, "--emit", "ir"), r"sigmoid")

    def test_ir_and_dot_need_no_operands(self):
        self.assertIn("return", self.succeed("dump", "relu(x + bias)", "--emit", "ir"))
        self.assertTrue(self.succeed("dump", "relu(x * alpha)", "alpha=2", "x=f32[4]", "--emit", "dot").startswith("digraph"))

    def test_cuda(self):
        source = self.succeed("dump", *CHAIN, "--emit", "cuda")
        self.assertIn("__global__", source)
        self.assertIn("sigmoid((x + bias) * scale)", source)
        self.assertNotIn("#include", source)

    def test_plan(self):
        text = self.succeed("dump", *CHAIN, "--emit", "plan", "--bandwidth", "3.35e12")
        for word in ("x", "bias", "scale", "out"):
            self.assertRegex(text, rf"\b{word}\b")
        # 128*32*254*254 elements of 2 bytes in and as many out, beside which 64 floats do not show.
        self.assertRegex(text, r"528\.52 MB read, 528\.52 MB written")
        self.assertIn("315.53 µs at 3.35 TB/s", text)

    def test_default_is_plan_and_cuda(self):
        text = self.succeed("dump", *CHAIN)
        self.assertLess(text.index("// ---- plan"), text.index("// ---- cuda"))
        self.assertIn("__global__", text)

    def test_bandwidth_gives_the_time(self):
        plan = self.json_of("dump", *CHAIN, "--emit", "plan", "--bandwidth", "1e12")["plan"]
        bytes_moved = 128 * 32 * 254 * 254 * 4 + 2 * 32 * 4
        self.assertEqual(plan["bytes_read"] + plan["bytes_written"], bytes_moved)
        self.assertAlmostEqual(plan["seconds_at_bandwidth"], bytes_moved / 1e12)
        self.fail_with(2, ["--bandwidth"], "dump", *CHAIN, "--bandwidth", "-1")

    def test_json_holds_what_was_asked_for(self):
        dump = self.json_of("dump", *CHAIN, "--emit", "ir,plan,cuda", "--emit", "dot")
        self.assertEqual(sorted(dump), ["cuda", "dot", "ir", "plan"])
        operands = {o["name"]: o for o in dump["plan"]["operands"]}
        self.assertEqual(sorted(operands), ["bias", "out", "scale", "x"])
        self.assertEqual(operands["x"]["bytes_per_access"], 16)
        self.assertEqual(operands["bias"]["dtype"], "f32")
        for key in ("schedule", "space", "elements_per_access", "threads", "blocks", "kernel_class"):
            self.assertIn(key, dump["plan"])

    def test_a_misaligned_operand_gets_narrower_accesses(self):
        aligned = self.json_of("dump", "x + 1", "x=f16[1000]", "--emit", "plan")["plan"]
        shifted = self.json_of("dump", "x + 1", "x=f16[1000]:offset(1)", "--emit", "plan")["plan"]
        self.assertGreater(aligned["operands"][0]["bytes_per_access"], shifted["operands"][0]["bytes_per_access"])

    def test_npy_gives_shape_and_type(self):
        self.succeed("run", "x", "x=f16[6,5]", "--out", ":colmajor", "-o", "x.npy", "--device", "cpu")
        plan = self.json_of("dump", "x + 1", "x=@x.npy", "--emit", "plan")["plan"]
        x = plan["operands"][0]
        self.assertEqual((x["dtype"], x["shape"], x["strides"]), ("f16", [6, 5], [1, 6]))

    def test_unknown_stage_and_architecture(self):
        self.fail_with(2, ["--emit: found 'asm'", "sass"], "dump", *CHAIN, "--emit", "asm")
        for arch in ("sm_x", "90x", "-1", "sm_"):
            self.fail_with(2, ["--arch"], "dump", *CHAIN, "--emit", "ir", f"--arch={arch}")


class Rows(ToolTest):
    """Chains with reductions: who shares a row, and what each pass does."""

    def plan_of(self, *arguments):
        return self.json_of("dump", *arguments, "--emit", "plan")["plan"]

    def test_a_held_row_is_read_once(self):
        plan = self.plan_of("softmax(x, axis=-1)", "x=f16[512,4096]")
        reduction = plan["reduction"]
        self.assertEqual((plan["schedule"], reduction["rows"], reduction["row_length"], reduction["inner_reduction"]), ("resident", 512, 4096, True))
        self.assertEqual((reduction["held"], reduction["saved"]), ([], ["%3 (exp)"]))
        self.assertEqual(self.plan_of("softmax(x, axis=-1) * x", "x=f16[512,4096]")["reduction"]["held"], ["x"])
        self.assertEqual([w["accumulates"] for w in reduction["passes"]], [["max_sumexp of x"], []])
        self.assertEqual((reduction["passes"][0]["reads"], reduction["passes"][1]["writes"]), (["x"], ["out"]))
        self.assertEqual((plan["bytes_read_again"], plan["workspace_bytes"]), (0, 0))
        text = self.succeed("dump", "softmax(x, axis=-1)", "x=f16[512,4096]", "--emit", "plan")
        self.assertIn("512 of 4096 elements, inner reduction", text)

    def test_few_long_rows_are_held_by_many_blocks(self):
        plan = self.plan_of("group_norm(x, 32)", "x=f16[1,512,360,640]")
        self.assertEqual(plan["schedule"], "split_resident")
        self.assertGreater(plan["reduction"]["blocks_per_row"], 8)
        self.assertEqual((plan["reduction"]["held"], plan["operands"][0]["reads"]), (["x"], 1))
        self.assertGreater(plan["workspace_bytes"], 0)

    def test_longer_ones_are_split(self):
        plan = self.plan_of("group_norm(x, 32)", "x=f32[1,512,720,1280]")
        self.assertEqual(plan["schedule"], "split")
        self.assertGreater(plan["reduction"]["blocks_per_row"], 1)
        self.assertEqual(plan["operands"][0]["reads"], 2)
        self.assertGreater(plan["workspace_bytes"], 0)

    def test_reduced_results_have_their_own_shape_and_bytes(self):
        plan = self.plan_of("return mean(x, axis=-1), amax(x)", "x=f32[300,1000]")
        shapes = {o["name"]: o["shape"] for o in plan["operands"]}
        self.assertEqual((shapes["out0"], shapes["out1"]), ([300], []))
        self.assertEqual(plan["bytes_written"], 300 * 4 + 4)

    def test_outer_reductions(self):
        rows = self.plan_of("softmax(x, axis=1)", "x=f16[16,64,32,32]")["reduction"]
        self.assertEqual((rows["inner_reduction"], rows["rows_side_by_side"], rows["row_length"]), (False, 1024, 64))

    def test_pointwise_chains_have_none(self):
        self.assertIsNone(self.plan_of("relu(x)", "x=f32[8]")["reduction"])

    def test_what_cannot_be_one_kernel_says_what_to_split(self):
        self.fail_with(2, ["cannot be one kernel", "two chains"], "dump", "softmax(softmax(x, 0), 1)", "x=f32[64,64]")
        self.fail_with(2, ["axis 2", "'sum'"], "dump", "sum(x, 2)", "x=f32[64,64]")
        self.fail_with(2, ["'group_norm'", "divisible"], "dump", "group_norm(x, 3)", "x=f32[2,8,4]")


class Compiled(ToolTest):
    def setUp(self):
        super().setUp()
        if not nvrtc_found():
            self.skipTest("no NVRTC")

    def test_ptx(self):
        for arch in ("sm_90", "90", "compute_90"):
            self.assertIn(".target sm_90", self.succeed("dump", *CHAIN, "--emit", "ptx", "--arch", arch))
        self.assertIn(".target sm_80", self.succeed("dump", *CHAIN, "--emit", "ptx", "--arch", "80"))

    def test_registers(self):
        plan = self.json_of("dump", *CHAIN, "--emit", "plan", "--arch", "sm_90")["plan"]
        self.assertGreater(plan["registers"], 4)
        self.assertEqual((plan["architecture"], plan["shared_bytes"]), (90, 0))
        simple = self.json_of("dump", "relu(x)", "x=f32[64,64]", "--emit", "plan", "--arch", "sm_90")["plan"]
        self.assertEqual((simple["spilled_bytes"], simple["shared_bytes"]), (0, 0))
        self.assertIn("per multiprocessor of sm_90", self.succeed("dump", *CHAIN, "--emit", "plan", "--arch", "sm_90"))
        self.assertIn(str(plan["registers"]), self.succeed("dump", *CHAIN, "--emit", "plan", "--arch", "sm_90"))

    def test_unknown_architecture(self):
        done = self.run_tool("dump", *CHAIN, "--emit", "ptx", "--arch", "sm_11")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"does not compile for sm_11; it compiles for sm_\d+, sm_\d+")

    def fake(self, name, script):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        return {"PATH": f"{path.parent}:/usr/bin:/bin", "TMPDIR": str(self.folder)}

    def test_sass_through_nvdisasm(self):
        # The stand-in proves that it got a cubin, which is an ELF file.
        env = self.fake("nvdisasm", 'test "$1" = --print-code && head -c 4 "$2" | tail -c 3 && echo " disassembled"')
        self.assertEqual(self.succeed("dump", *CHAIN, "--emit", "sass", env=env), "ELF disassembled\n")
        self.assertEqual(list(self.folder.glob("epifuse-*")), [])

    @unittest.skipIf(os.path.exists("/usr/local/cuda/bin/nvdisasm"), "nvdisasm is installed and comes first")
    def test_sass_through_cuobjdump(self):
        env = self.fake("cuobjdump", 'echo "$1"')
        self.assertEqual(self.succeed("dump", *CHAIN, "--emit", "sass", env=env), "--dump-sass\n")

    def test_a_failing_disassembler(self):
        env = self.fake("nvdisasm", "echo cannot read that >&2; exit 3")
        self.fail_with(1, ["nvdisasm", "cannot read that"], "dump", *CHAIN, "--emit", "sass", env=env)

    @unittest.skipIf(disassembler_installed(), "a disassembler is installed")
    def test_no_disassembler(self):
        self.fail_with(1, ["no disassembler", "nvdisasm", "install"], "dump", *CHAIN, "--emit", "sass", env=TOOLS_OFF_PATH)

    @unittest.skipUnless(disassembler_installed(), "no disassembler is installed")
    def test_real_sass(self):
        self.assertTrue(re.search(r"\bEXIT\b", self.succeed("dump", *CHAIN, "--emit", "sass", "--arch", "sm_90")))


class WithoutNvrtc(ToolTest):
    ENV = {"EPIFUSE_NVRTC": "/nonexistent/libnvrtc.so"}

    def test_the_plan_is_printed_all_the_same(self):
        plan = self.json_of("dump", *CHAIN, "--emit", "plan", env=self.ENV)["plan"]
        self.assertIsNone(plan["registers"])
        self.succeed("dump", *CHAIN, env=self.ENV)

    def test_ptx_says_what_is_missing(self):
        self.fail_with(1, ["NVRTC"], "dump", *CHAIN, "--emit", "ptx", env=self.ENV)
        self.fail_with(1, ["NVRTC"], "dump", *CHAIN, "--emit", "cuda,sass", env=self.ENV)


if __name__ == "__main__":
    main()
