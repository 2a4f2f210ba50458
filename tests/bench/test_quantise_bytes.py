"""The counts of quantising tails: of every tail its results are counted, and a count below the least bytes is refused.

What each tail returns is read from its text here, and from the program's IR and plan there. No tool is needed: reports
are made up, and the committed record has what the tool gave."""

import json
import pathlib
import sys
import unittest
import unittest.mock

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"
sys.path.insert(0, str(BENCH))
import pointwise_cases
import quantise_bytes
import record

RECORDS = record.read(record.RESULTS / "quantise-bytes-stub.json")["records"]
TYPES = ("f8e4m3", "f8e8m0", "f4e2m1", "bf16", "i8", "i4")


def returned(chain):
    """What a chain returns, split at the commas outside of parentheses and brackets."""
    last = chain.split(";")[-1].strip().removeprefix("return ")
    found, depth = [""], 0
    for letter in last:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


def report(chain, results):
    """What `epifuse dump --emit ir,plan --json` says, in short: every operand once, then the results."""
    operands = [
        {"name": name, "dtype": dtype, "shape": list(shape)}
        for name, (dtype, shape) in quantise_bytes.operands_of(chain).items()
        if f"index_copy({name}," not in chain  # written, and not read
    ]
    named = [{"name": f"out{n}", "dtype": dtype, "shape": shape} for n, (dtype, shape) in enumerate(results)]
    sizes = pointwise_cases.ITEM_BYTES

    def bytes_of(tensors):
        total = 0
        for one in tensors:
            count = sizes[one["dtype"]]
            for extent in one["shape"]:
                count *= extent
            total += count
        return total

    return {
        "ir": "%0   = input x\n" + "".join(f"return %{n} as {one['name']}\n" for n, one in enumerate(named)),
        "plan": {
            "operands": operands + named,
            "schedule": "resident",
            "bytes_read": bytes_of(operands),
            "bytes_read_again": 0,
            "bytes_written": bytes_of(named),
            "workspace_bytes": 0,
            "elements_per_access": 8, "elements": 1 << 25,
            "steps": 2,
            "registers": 40,
            "spilled_bytes": 0,
            "threads": 128,
        },
    }


def measured(chain, given):
    with unittest.mock.patch.object(quantise_bytes, "dumped", lambda *_: json.dumps(given)):
        return quantise_bytes.measured("no tool", "a tail", chain, "sm_90", dry=True)


class Results(unittest.TestCase):
    def test_of_every_tail_each_is_counted_once(self):
        rows = [quantise_bytes.ROWS, quantise_bytes.COLUMNS]
        for name, chain in quantise_bytes.TAILS:
            with self.subTest(name):
                results = [(dtype, rows) for dtype, _ in zip(TYPES, returned(chain))]
                found = measured(chain, report(chain, results))
                self.assertEqual(found["results"], [dtype for dtype, _ in results])
                self.assertEqual(found["ratio"], 1.0)

    def test_a_comma_in_a_call_separates_no_results(self):
        chain = "q, s = quantize(x, f8e4m3, 128, true); return q, cast(s, f8e8m0)"
        self.assertEqual(returned(chain), ["q", "cast(s, f8e8m0)"])
        self.assertEqual(returned("cast(sum(x[..., None], 1) + r, bf16)"), ["cast(sum(x[..., None], 1) + r, bf16)"])

    def test_fewer_bytes_than_the_least_are_a_wrong_count(self):
        given = report("return x, w", [("bf16", [4096, 7168]), ("f32", [4096, 1])])
        given["plan"]["bytes_written"] -= 1
        with self.assertRaisesRegex(SystemExit, "a tail, sm_90: .* one count is wrong"):
            measured("return x, w", given)

    def test_results_that_the_plan_does_not_end_with_are_told(self):
        given = report("return x, w", [("bf16", [4096, 7168])])
        given["ir"] += "return %1 as other\n"
        with self.assertRaisesRegex(SystemExit, r"the results \['out0', 'other'\] are not the last operands"):
            measured("return x, w", given)


class Record(unittest.TestCase):
    def test_it_has_every_tail_for_every_architecture(self):
        expected = [(*tail, one) for tail in quantise_bytes.TAILS for one in quantise_bytes.ARCHITECTURES]
        self.assertEqual([(one["tail"], one["chain"], one["architecture"]) for one in RECORDS], expected)

    def test_its_results_are_those_of_the_chains(self):
        for one in RECORDS:
            with self.subTest(f"{one['tail']}, {one['architecture']}"):
                self.assertEqual(len(one["results"]), len(returned(one["chain"])))

    def test_nothing_moves_fewer_bytes_than_the_least(self):
        for one in RECORDS:
            with self.subTest(f"{one['tail']}, {one['architecture']}"):
                self.assertGreaterEqual(one["moved_bytes"], one["least_bytes"])
                self.assertIsNotNone(one["instructions"])


if __name__ == "__main__":
    unittest.main()
