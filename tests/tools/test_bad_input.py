"""Bad input: exit code 2, a sentence that names what is wrong and what was expected, nothing written."""

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
