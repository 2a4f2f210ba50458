"""Which mend is taken back by which patch, and which generator has to find that. run.py runs it, check.py sees that
each patch applies. A row more: a patch made with `git diff` of an edit that undoes the mend, and the shortest command
that finds it."""

import dataclasses

HEADINGS = ("kernels that do not compile", "crashes", "silent wrong values", "errors")
GENERATORS = ("tables", "PyTorch's and NumPy's own functions", "random PyTorch programs")

# What a command may hold: the generator of the scratch tree, and the folder of its Python tests.
TABLES = "{build}/tests/generator/epifuse_generate --jobs 2 --no-shrink"
GRAPH_OPS = "{python} {tests}/graphs/op_db.py"
FUSED_OPS = "{python} {tests}/support/op_db.py"
NUMPY = "{python} {tests}/support/numpy_functions.py"
PROGRAMS = "{python} {tests}/graphs/programs.py --no-shrink --mode aot --compile-every 1"


@dataclasses.dataclass(frozen=True)
class Row:
    """One generator against one patch."""

    patch: str  # the file's name, without .patch
    heading: str
    item: str  # of issue 24, in words
    generator: str
    command: str
    shows: str  # a regular expression: what in a finding says that it is this defect

    @property
    def name(self):
        return f"{self.patch} / {self.generator}"


def _rows(patch, heading, item, *found):
    for number, command, shows in found:
        yield Row(patch, HEADINGS[heading], item, GENERATORS[number], command, shows)


ROWS = (
    *_rows(
        "grid-reduction-of-a-row",
        0,
        "1: a statistic of the grid with an expression of one-element operands",
        (0, f"{TABLES} --seed 24 --first 900 --programs 200", r'identifier "row" is undefined'),
        (1, f"{GRAPH_OPS} --compile --most 1 --only min", r'identifier "row" is undefined'),
        (2, f"{PROGRAMS} --count 60", r'identifier "row" is undefined'),
    ),
    *_rows(
        "split-of-nothing",
        1,
        "4: dimensions without elements were split without end",
        (0, f"{TABLES} --seed 24 --first 6000 --programs 600 --no-compile", r"the process died of signal 11"),
        (1, f"{GRAPH_OPS} --most 1 --only tri", r"the process ended with -11 at .* of nothing"),
        (2, f"{PROGRAMS} --count 40", r"the process died of SIGSEGV at"),
    ),
    *_rows(
        "printed-names",
        2,
        "8: a printed value took the name of a result",
        (0, f"{TABLES} --seed 24 --programs 200 --no-compile", r"its text reads back as another program"),
    ),
    *_rows(
        "variance-of-numpy",
        2,
        "13: NumPy's variance divides by n, not by n - 1",
        (1, f"{NUMPY} --only numpy.var --draws 60", r"numpy\.var: \d+ of \d+ elements"),
    ),
    *_rows(
        "sum-of-masks",
        2,
        "14: a sum of two truth values was 2",
        (1, f"{GRAPH_OPS} --most 1 --only add", r"add torch\.bool sample 0 as a statistic: "),
        # Programs 696 and 729 multiply by a sum of two masks.
        (2, f"{PROGRAMS} --seed 690 --count 40", r"^result 2: -?[\d.]+ for -?[\d.]+ at "),
    ),
    *_rows(
        "names-of-parts",
        3,
        "15: errors named what a function is made of",
        (0, f"{TABLES} --seed 24 --programs 100 --no-compile", r"the refusal names '\w+', which nobody wrote"),
        (1, f"{FUSED_OPS} --samples 6 --only softmax", r"an error that names \w+, which was not called"),
        (2, f"{PROGRAMS} --seed 360 --count 30", r"an error that names [\w, ]+, which was not called"),
    ),
)
