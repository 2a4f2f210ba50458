"""Bad input: exit code 2, a sentence that names what is wrong and what was expected, nothing written."""

import re

from support import ToolTest, main

# (what must be in the message, arguments after the subcommand)
CHAINS = [
    (["unknown function 'sigmod'", "'sigmoid'", "^"], ["sigmod(x)", "x=f32[4]"]),
    (["^"], ["x +", "x=f32[4]"]),
    (["^"], ["(x", "x=f32[4]"]),
    (["^"], ["x $ 2", "x=f32[4]"]),
    (["relu", "^"], ["relu(x, 1)", "x=f32[4]"]),
    (["where", "^"], ["where(x > 0, x)", "x=f32[4]"]),
    (["^"], ["relu(input=x, nothing=1)", "x=f32[4]"]),
    (["no result"], ["", "x=f32[4]"]),
]
OPERANDS = [
    (["operand 'bias' is missing"], ["x + bias", "x=f32[4]"]),
    (["operand 'alpha' is missing"], ["scalar alpha; x * alpha", "x=f32[4]"]),
    (["unknown operand 'bais'", "x, bias"], ["x + bias", "x=f32[4]", "bias=f32[4]", "bais=f32[4]"]),
    (["unknown operand 'alhpa'"], ["x * alpha", "x=f32[4]", "alpha=f32[4]", "alhpa=2"]),
    (["operand 'x' is given twice"], ["x", "x=f32[4]", "x=f32[4]"]),
    (["'x' is no operand", "NAME=VALUE"], ["x", "x"]),
    (["'=f32[4]' is no operand"], ["x", "=f32[4]"]),
    (["'1x=f32[4]' is no operand"], ["x", "1x=f32[4]"]),
    (["operand 'x'", "found ''", "expected"], ["x", "x="]),
    (["operand 'x'", "found 'f32'", "TYPE[SHAPE]"], ["x", "x=f32"]),
    (["operand 'x'", "'f17' is no element type", "bf16"], ["x", "x=f17[4]"]),
    (["operand 'x'", "'' is no element type"], ["x", "x=[4]"]),
    (["operand 'x'", "'f17' is no element type"], ["x", "x=f17@x.npy"]),
    (["operand 'x'", "list of 64-bit integers"], ["x", "x=f32[4"]),
    (["operand 'x'", "list of 64-bit integers"], ["x", "x=f32[4,,4]"]),
    (["operand 'x'", "list of 64-bit integers"], ["x", "x=f32[a]"]),
    (["operand 'x'", "list of 64-bit integers"], ["x", "x=f32[99999999999999999999]"]),
    (["operand 'x'", "'junk' is no layout"], ["x", "x=f32[4]junk"]),
    (["operand 'x'", "'nwhc' is no layout", ":nhwc"], ["x", "x=f32[1,2,3,4]:nwhc"]),
    (["operand 'x'", "[N,C,H,W]"], ["x", "x=f32[4]:nhwc"]),
    (["operand 'x'", "is for matrices"], ["x", "x=f32[4]:colmajor(8)"]),
    (["operand 'x'", "leading dimension 3"], ["x", "x=f32[4,2]:colmajor(3)"]),
    (["operand 'x'", "is no layout"], ["x", "x=f32[4,2]:colmajor(3,4)"]),
    (["operand 'x'", "1 strides for the 2 dimensions"], ["x", "x=f32[4,2]:strides(3)"]),
    (["operand 'x'", "is no layout"], ["x", "x=f32[4,2]:strides"]),
    (["operand 'x'", "second layout"], ["x", "x=f32[4,2]:strides(2,1):colmajor"]),
    (["operand 'x'", "offset -1 is negative"], ["x", "x=f32[4]:offset(-1)"]),
    (["operand 'x'", "is no layout"], ["x", "x=f32[4]:offset()"]),
    (["'x' is a scalar"], ["scalar x; x * y", "x=f32[4]", "y=f32[4]"]),
    (["'x' is used both as a tensor and as a scalar"], ["input x; x * 2", "x=4"]),
]
SHAPES = [
    (["'b'", "[3]", "[4]", "broadcast"], ["x + b", "x=f32[4]", "b=f32[3]"]),
    (["'b'", "[2, 1, 3]", "broadcast"], ["x + b", "x=f32[5,4]", "b=f32[2,1,3]"]),
    (["operand 'x'", "9 dimensions", "at most 8"], ["x", "x=f32[1,1,1,1,1,1,1,1,1]"]),
    (["'x'", "negative", "-4"], ["x", "x=f32[-4]"]),
    (["'x'", "2^40"], ["x", "x=i8[4294967296,4294967296]"]),
    (["'x'", "2^40"], ["x", "x=i8[9223372036854775807,9223372036854775807]"]),
    (["'x'", "2^60"], ["x", "x=i8[2]:strides(9223372036854775807)"]),
    (["'x'", "2^60"], ["x", "x=i8[2,2]:strides(-9223372036854775807,9223372036854775807)"]),
]
RESULTS = [
    (["--out f17", "'f17' is no element type"], ["x", "x=f32[4]", "--out", "f17"]),
    (["--out gives 2 types", "1 result"], ["x", "x=f32[4]", "--out", "f16,f16"]),
    (["--out f16;", "found ';'"], ["x", "x=f32[4]", "--out", "f16;"]),
    (["result 'out'", "[N,C,H,W]"], ["x + 1", "x=f32[4]", "--out", "f16:nhwc"]),
    (["'out'", "more than once"], ["x + 1", "x=f32[4,4]", "--out", "f32:strides(0,1)"]),
]
IN_PLACE = [
    (["--inplace y", "no such operand"], ["x", "x=f32[4]", "--inplace", "y"]),
    (["--inplace b", "shape"], ["x + b", "x=f32[4,4]", "b=f32[4]", "--inplace", "b"]),
    (["--inplace x", "f16", "f32"], ["x", "x=f32[4]", "--inplace", "x", "--out", "f16"]),
    (["'out'", "more than once"], ["x + 1", "x=f32[4,4]:strides(0,1)", "--inplace", "x"]),
]
RANDOM = [
    (["'seed' of 'rand_like' is a run-time scalar", "found 0.5"], ["rand_like(x, 0.5, 0)", "x=f32[4]"]),
    (["'offset' of 'dropout'", "below 2^53", "found 9007199254740992"], ["dropout(x, 0.5, 0, 9007199254740992)", "x=f32[4]"]),
    (["'seed' of 'rand_like'", "found a tensor"], ["rand_like(x, y, 0)", "x=f32[4]", "y=f32[4]"]),
    (["'p' of 'dropout' is a probability", "found 1.5"], ["dropout(x, 1.5, 0, 0)", "x=f32[4]"]),
    (["scalar 's' is a seed or an offset", "found -1"], ["rand_like(x, s, 0)", "x=f32[4]", "s=-1"]),
]
REDUCTIONS = [
    (["axis 2 of 'sum' is out of range", "2 dimensions"], ["sum(x, 2)", "x=f32[3,4]"]),
    (["axis -3 of 'softmax' is out of range"], ["softmax(x, axis=-3)", "x=f32[3,4]"]),
    (["axis 9 of 'softmax' is out of range", "^"], ["softmax(x, axis=9)", "x=f32[3,4]"]),
    (["axis 1 of 'sum' is given twice", "^"], ["sum(x, (1, 1))", "x=f32[3,4]"]),
    (["'sum' names dimension 1 of its 2 twice"], ["sum(x, (1, -1))", "x=f32[3,4]"]),
    (["'group_norm' cannot split dimension 1", "[2, 8, 4]", "8 is not divisible"], ["group_norm(x, 3)", "x=f32[2,8,4]"]),
    (["'sub'", "[3, 4] and [3]", "keepdim=true"], ["x - mean(x, 1)", "x=f32[3,4]"]),
    (["'add'", "[3, 4] and [5]"], ["x + sum(y, 0)", "x=f32[3,4]", "y=f32[2,5]"]),
    (["'amax' reduces a dimension without elements"], ["amax(x, 1)", "x=f32[3,0]"]),
    (["'neg' takes numbers", "operand 'x' (bool)"], ["(-x)", "x=bool[4]"]),
]
ONE_KERNEL = [
    (["cannot be one kernel", "two chains", "'softmax' (axis=0) and 'softmax' (axis=1) are"], ["softmax(softmax(x, 0), 1)", "x=f32[64,64]"]),
    (["cannot be one kernel", "'group_norm'"], ["group_norm(layer_norm(x, axis=0), 4)", "x=f32[64,64,64]"]),
]
# What somebody may type to break out of a message, a file name or a kernel. No argument of a process holds a zero byte or more than 128 kB.
HOSTILE = ['x"', "x'", "x\\", "x\n", "x\r\n#include <x>", "x/*", "x*/", "x//", "#define x", "x\t", "x\x1b[31m", "x\x7f", "é", "\u202ex",
           "x??/", "x;y", "x y", "x) { } ", "x\\\nreturn", "R\"(x)\"", "%s%n", "{}", "$(id)", "`id`", "x" * 100_000]
# Every option of every subcommand: values that are wrong, and the words that say what is expected. test_no_option_is_forgotten reads --help.
# Text of what kind of value is what kind of nonsense; "" comes as an argument of its own and after '='.
NO_NUMBER = ["", "abc", "nan", "-1", "1e400", "7x", "7 ", " 7", "+-7", "0x10", "99999999999999999999999999", "inf", "é"]
SEED = (NO_NUMBER + ["18446744073709551616", "1.5", "1e3"], ["an integer from 0 to 18446744073709551615"])
DEVICE = (["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999", "cpu:1", "CPU"], ["auto, cpu, cuda or cuda:N"])
GRADIENT = (["", "y", "x,x", "x,,y", "x,y"], ["has no operand", "is asked for twice"])
SWITCH = (["5", "0", "no", "false", "-1"], ["no value"])
THREADS = (NO_NUMBER + ["1025", "1.5", "4294967297"], ["an integer from 0 to 1024"])
TARGETS = (NO_NUMBER + ["sm_", "sm_9x", "9", "10000", "sm_90:", "sm_90:0", "sm_90:-1", "sm_90:132:", "sm_90:132:0", "sm_90:132:1:0", "sm_90:132:1:1:1",
                        "sm_90:99999999999999999999", "80,sm_x"], ["sm_90 or 90"])
TASK = {
    "--out": (["", "f17", "f16;", ",f17", "f16:nwhc", "f16:offset(-1)", "f16:offset(x)", "f16:strides()x"], ["expected", "types are", "offset counts"]),
    "--math": (["", "exact", "0", "Fast"], ["precise, standard or fast"]),
}
OPTIONS = {
    ("run",): TASK | {
        "--output": (["", "no/such/folder/y.npy", ".", "nothing=y.npy", "out="], ["expected", "does not exist", "the results are"]),
        "--inplace": (["", "nothing"], ["the name of an operand", "the chain's tensors are x"]),
        "--gradient": GRADIENT,
        "--device": DEVICE, "--seed": SEED, "--json": SWITCH},
    ("bench",): TASK | {
        "--device": DEVICE, "--seed": SEED, "--json": SWITCH,
        "--with": (["", "x +", "rely(x)", "y + 1"], ["the chain has no result", "expected a value", "unknown function", "'y' is missing"]),
        "--seconds": (NO_NUMBER + ["3601", "-0.5"], ["a number from 0 to 3600"])},
    ("dump",): TASK | {
        "--emit": (["", "ptxx", "plan,,cuda", "plan,", "PLAN"], ["ir, plan, cuda, ptx, sass or dot"]),
        "--arch": (NO_NUMBER + ["sm_", "sm_9x", "sm_-90", "9", "10000", "sm_compute_90", "-90"], ["sm_90 or 90"]),
        "--bandwidth": (NO_NUMBER + ["0", "-3e12", "1e19"], ["a number from 1 to 1e+18"]),
        "--gradient": GRADIENT,
        "--json": SWITCH},
    ("warm",): {
        "--device": DEVICE, "--json": SWITCH, "--arch": TARGETS, "--threads": THREADS},
    ("bundle",): {
        "--json": SWITCH, "--arch": TARGETS, "--threads": THREADS,
        "--list": (["", "missing", "."], ["expected either a list", "a file name"]),
        "--output": (["", "no/such/folder/k.epifuse", "."], ["expected", "does not exist"]),
        "--emit": (["", "so", "cpp,bundle", "CPP"], ["bundle or cpp"]),
        "--name": (["", "1x", "a b", "é", "a-b"], ["a name of C++"])},
    ("ops",): {"--json": SWITCH, "--markdown": SWITCH},
    ("doctor",): {"--json": SWITCH},
    ("completion",): {},
    ("man",): {},
    ("cache", "info"): {"--json": SWITCH},
    ("cache", "verify"): {"--json": SWITCH},
    ("cache", "clear"): {"--json": SWITCH},
}
# What an operand may not be; the sentence names the operand.
VALUES = ["", " ", "f16", "f16[", "f16[8", "f16]8[", "f16[-1]", "f16[1.5]", "f16[8]x", "f16[8]:", "f16[8]:strides(1,2)", "f16[8]:offset()",
          "f16[99999999999999999999]", "f16[8]:strides(99999999999999999999)", "f16[8]:offset(99999999999999999999)", "F16[8]", "[8]",
          "+-5", "5x", "0x10", "1e400", "nan(1)", "--5", "1,5", "f16@", "@", "f99@x.npy"]
LINE = [
    ([], []),
    ([], ["x", "x=f32[4]", "--seed", "many"]),
    (["--seed"], ["x", "x=f32[4]", "--seed=-1"]),
    ([], ["x", "x=f32[4]", "--seed"]),
    ([], ["x", "x=f32[4]", "--no-such-option"]),
]


class BadInput(ToolTest):
    def check(self, cases, *commands):
        for fragments, arguments in cases:
            for command in commands:
                with self.subTest(command=command, arguments=arguments):
                    device = [] if command == "dump" else ["--device", "cpu"]
                    file = ["-o", "y.npy"] if command == "run" else []
                    self.fail_with(2, fragments, command, *arguments, *device, *file)

    def test_chains(self):
        self.check(CHAINS, "run", "dump", "bench")

    def test_operands(self):
        self.check(OPERANDS, "run", "dump", "bench")

    def test_shapes(self):
        self.check(SHAPES, "run", "dump", "bench")

    def test_results(self):
        self.check(RESULTS, "run", "bench")

    def test_in_place(self):
        self.check(IN_PLACE, "run")

    def test_command_line(self):
        self.check(LINE, "run", "bench")

    def refused(self, expected, *arguments):
        """Exit code 2 and one sentence that says what was expected; no range of a hundred digits."""
        error = self.fail_with(2, [], *arguments)
        self.assertTrue(any(words in error for words in expected), error)
        self.assertIsNone(re.search(r"\d{30}", error.replace("9" * 26, "")), error)
        return error

    def test_options(self):
        for command, options in OPTIONS.items():
            with_task = command[0] in ("run", "bench", "dump")
            for option, (values, expected) in options.items():
                for value in values:
                    before = ["x + 1", "x=f32[4]"] if with_task else ["/dev/null"] if command[0] in ("warm", "bundle") else []
                    forms = [[f"{option}={value}"]] if values is SWITCH[0] else [[option, value], [f"{option}={value}"]]
                    if value.startswith("-"):
                        forms = forms[-1:]  # else it may look like an option, which is another mistake
                    for form in forms:
                        with self.subTest(command=command, form=form):
                            error = self.refused(expected, *command, *before, *form)
                            named = "-o" if option == "--output" else "result 'out'" if "[N,C,H,W]" in error else option
                            self.assertIn(named, error)

    def test_no_option_is_forgotten(self):
        for command, options in OPTIONS.items():
            with self.subTest(command=command):
                described = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", self.succeed(*command, "--help"), re.M)) - {"--help"}
                self.assertEqual(described, set(options))
        commands = set(re.findall(r"^  (\w+)  ", self.succeed("--help").split("Subcommands:")[1].split("Examples:")[0], re.M))
        self.assertEqual(commands, {command[0] for command in OPTIONS})

    def test_values_of_operands(self):
        for value in VALUES:
            for command in ("run", "bench", "dump"):
                with self.subTest(command=command, value=value):
                    self.refused(["operand 'x'"], command, "x + 1", f"x={value}")

    def test_options_given_twice(self):
        self.fail_with(2, ["--seed"], "run", "x", "x=f32[4]", "--seed", "1", "--seed", "2")
        self.fail_with(2, ["--arch"], "dump", "x", "x=f32[4]", "--arch", "90", "--arch", "80")

    def test_lists_that_cannot_be_read(self):
        for path in ("", "missing", "."):
            with self.subTest(path=path):
                self.refused(["a file with one launch per line"], "warm", path)

    def test_random_numbers(self):
        self.check(RANDOM, "run")

    def test_reductions(self):
        self.check(REDUCTIONS, "run", "dump", "bench")
        self.check([(["--inplace x", "shape"], ["sum(x, 1)", "x=f32[3,4]", "--inplace", "x"])], "run")
        self.check(ONE_KERNEL, "dump")

    def no_control_characters(self, error):
        self.assertEqual([c for c in error if (c < " " and c != "\n") or c == "\x7f"], [], error)

    def test_hostile_names(self):
        for name in HOSTILE:
            for operand in (f"{name}=f32[4]", f"x=f32[4]:{name}", f"x={name}[4]", f"x=@{name[:200]}"):
                with self.subTest(operand=operand[:100]):
                    self.no_control_characters(self.fail_with(2, [], "run", "x", operand, "--device", "cpu", "-o", "y.npy"))

    def test_hostile_text(self):
        for text in HOSTILE:
            for chain in (f"relu(x) + {text}", f"gelu(x, approximate='{text}')", f"{text} = x; relu(x)", f"input {text}; x"):
                with self.subTest(chain=chain[:100]):
                    done = self.run_tool("dump", chain, "x=f32[4]", "--emit", "cuda")
                    self.no_control_characters(done.stderr)
                    if text.split()[:1] == ["x"]:  # x and a space or a comment: some of these are chains
                        self.assertRegex(done.stdout, r"^[ -\[\]-~\n]*$")
                    else:
                        self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_depth(self):
        for text in ("(", "-", "not "):
            with self.subTest(text=text):
                self.fail_with(2, ["^"], "run", text * (100_000 // len(text)), "x=f32[4]", "--device", "cpu")

    def test_nothing_of_a_comment_reaches_the_source(self):
        plain = self.succeed("dump", "relu(x) + 1", "x=f32[4]", "--emit", "cuda")
        self.assertNotIn("\\", plain)
        for text in HOSTILE:
            if "\n" not in text:
                with self.subTest(text=text[:100]):
                    chain = f"# {text[:40_000]}\nrelu(x) + 1 # */ {text[:40_000]} \\"
                    self.assertEqual(self.succeed("dump", chain, "x=f32[4]", "--emit", "cuda"), plain)

    def test_the_caret_stands_under_the_error(self):
        error = self.fail_with(2, [], "run", "x + sigmod(x)", "x=f32[4]", "--device", "cpu")
        lines = error.splitlines()
        caret = next(i for i, line in enumerate(lines) if line.strip() == "^" or line.strip().startswith("^"))
        self.assertEqual(lines[caret - 1][lines[caret].index("^"):][:6], "sigmod")

    def test_unknown_subcommand(self):
        self.fail_with(2, [], "rum", "x")
        self.fail_with(2, [])
        self.fail_with(2, [], "cache")
        self.fail_with(2, [], "cache", "empty")
        self.fail_with(2, [], "ops", "--json", "--markdown")

    def test_nothing_to_time(self):
        self.fail_with(2, ["no elements"], "bench", "x", "x=f32[0]", "--device", "cpu")

    def test_host_memory(self):
        done = self.run_tool("run", "x", "x=f64[1099511627776]", "--device", "cpu", "-o", "y.npy")
        self.assertEqual((done.returncode, done.stdout, self.listing()), (1, "", {}))
        self.assertIn("epifuse: error: tensor 'x': the host has no 8.80 TB", done.stderr)


if __name__ == "__main__":
    main()
