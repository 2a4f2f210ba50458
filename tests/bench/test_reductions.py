"""What bench/table_reductions.py says of records: what is missed, and which are of another run."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import markdown
import record as record_file
import table_reductions


def record(case, ours, compiled=None, **more):
    ratio = {"epifuse": ours} | ({"compile": compiled} if compiled else {})
    return {"case": case, "group": "rows", "dtype": "f32", "text": "softmax(x, -1)", "limit": "copy", "target": 1.1,
            "inputs": {"x": {"shape": [4, 8]}}, "published": None, "ratio": ratio, "limited_by": "resident",
            "seconds": {name: value * 1e-5 for name, value in ratio.items()} | {"copy": 1e-5},
            "gbps": {"epifuse": 3000 / ours}, "plan": {"schedule": "resident"}} | more


def document(*records):
    return record_file.made("reductions", device="a GPU", driver="1", versions={"torch": "2", "triton": "3", "epifuse": "0.1.0"},
                            settings={"copy_gbps": 3000.0}, records=records) | {"commit": "b" * 40}


def text(*records):
    return markdown.written(table_reductions.TABLE, document(*records))


class Table(unittest.TestCase):
    def test_is_bold_above_the_bound_or_slower_than_the_compiler(self):
        self.assertEqual(table_reductions.epifuse_ratio(record("a", 1.05, 1.2)), "1.05")
        self.assertEqual(table_reductions.epifuse_ratio(record("a", 1.05, 1.04)), "**1.05**")
        self.assertEqual(table_reductions.epifuse_ratio(record("a", 1.12)), "**1.12**")

    def test_records_of_another_run_are_marked(self):
        earlier = record("b", 1.0, commit="f" * 40, date="2026-11-22T00:00:00")
        lines = text(record("a", 1.0), earlier).splitlines()
        self.assertIn("† of another run, at `ffffffffffff`, 2026-11-22.", lines[0])
        self.assertEqual([line for line in lines if "†" in line],
                         [lines[0], next(line for line in lines if line.startswith("| b †:"))])
        self.assertNotIn("†", text(record("a", 1.0)))


if __name__ == "__main__":
    unittest.main()
