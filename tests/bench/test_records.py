"""The benchmarks' records: every committed one keeps the format of bench/record.py, and the pages' tables are what the
records say."""

import contextlib
import io
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"
sys.path.insert(0, str(BENCH))
import examples
import record
import session
import suites
import tables

COMMITTED = sorted(record.RESULTS.glob("*.json"))


def document(**more):
    return (
        record.made(
            "pointwise", device="a GPU", driver="1", versions={"torch": "2"}, command="x", records=[{"case": "a"}]
        )
        | {"commit": "c" * 40}
        | more
    )


class Format(unittest.TestCase):
    def test_every_committed_record_keeps_it(self):
        self.assertGreater(len(COMMITTED), 10)
        for path in COMMITTED:
            self.assertEqual(record.problems(record.read(path)), [], path.name)

    def test_what_does_not_keep_it_is_told(self):
        self.assertEqual(record.problems(document()), [])
        for broken, told in (
            (document(records=[]), "no records"),
            (document(records=[3]), "record 0 is int, expected dict"),
            (document(machine="a GPU"), "a field 'machine', which the format has not"),
            (document(device=3), "'device' is int, expected str or NoneType"),
            (document(commit="main"), "'commit' is 'main'"),
            (document(date="yesterday"), "'date' is 'yesterday'"),
            (document(records=[{"commit": "HEAD"}]), "'commit' of record 0 is 'HEAD'"),
            (document(versions={"torch": 2.1}), "version 'torch' is 2.1, expected text or null"),
            (document(records=[{"case": "a", "running": True}]), "record 0 was running when the file was written"),
            ({name: value for name, value in document().items() if name != "driver"}, "no field 'driver'"),
        ):
            self.assertIn(told, record.problems(broken))
        self.assertIn("expected an object", record.problems([document()])[0])

    def test_each_is_of_a_known_suite_and_none_is_missing(self):
        known = {name: result for result in suites.results() for name in result.files()}
        self.assertEqual({path.name for path in COMMITTED}, set(known))
        for path in COMMITTED:
            self.assertEqual(record.read(path)["suite"], known[path.name].name)

    def test_a_name_says_the_device_that_the_record_says(self):
        for result in suites.results():
            for device in result.devices:
                found = record.read(record.RESULTS / f"{result.name}-{device}.json")
                self.assertEqual(record.device_of(found["device"]), device, result.name)
        for path in BENCH.iterdir():
            self.assertNotRegex(path.name, "[hHaAbB][12]00", path.name)

    def test_devices_as_file_names_say_them(self):
        for name, expected in (
            ("NVIDIA H100 80GB HBM3", "h100"),
            ("NVIDIA H200", "h200"),
            ("NVIDIA GH200 480GB", "gh200"),
            ("NVIDIA A100-SXM4-80GB", "a100"),
            ("Tesla V100-SXM2-16GB", "v100"),
            ("NVIDIA L40S", "l40s"),
            ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"),
            ("none (stub driver)", "stub"),
        ):
            self.assertEqual(record.device_of(name), expected)


class Files(unittest.TestCase):
    def test_what_was_written_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "new/a.json"
            record.write(path, document(command="µs"))
            self.assertEqual(record.read(path)["command"], "µs")
            self.assertEqual([one.name for one in path.parent.iterdir()], ["a.json"])

    def test_a_case_that_broke_off_is_told_when_the_run_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.json"
            run = session.Document(path, document(records=[]))
            run.begin({"case": "b", "dtype": "f32"})
            run.add({"case": "b", "dtype": "f32", "seconds": {}})
            self.assertEqual(record.problems(record.read(path)), [])
            run.begin({"case": "c", "dtype": "f32"})
            last = record.read(path)["records"][-1]
            self.assertEqual(
                session.broken_off(last),
                {"case": "c", "dtype": "f32", "error": "the process ended in the middle of it"},
            )

    def test_parts_of_one_run_are_joined(self):
        parts = [document(records=[{"case": "b"}]), document(records=[{"case": "a"}])]
        whole = record.merged(parts, lambda one: one["case"])
        self.assertEqual(([one["case"] for one in whole["records"]], whole["command"]), (["a", "b"], "x; x"))
        with self.assertRaisesRegex(SystemExit, "differ in versions, commit"):
            record.merged([document(), document(commit="d" * 40, versions={})])
        with self.assertRaisesRegex(SystemExit, "differ in device;"):
            record.merged([document(), document(device="another GPU")])

    def test_the_examples_lines_become_one_document(self):
        lines = [
            {
                "example": name,
                "library": library,
                "device": "a GPU",
                "driver": "13.0",
                "cuda_runtime": "13.0",
                "epifuse": "0.1.0",
            }
            for name, library in (("1", "cuDNN 9.14.0"), ("2", "cuBLASLt 13.1.0"))
        ]
        with unittest.mock.patch.object(record, "asked_of_gpu", lambda what: "580"):
            found = examples.collected(lines)
        self.assertEqual(record.problems(found), [])
        self.assertEqual(
            found["versions"],
            {
                "epifuse": "0.1.0",
                "cuda_driver": "13.0",
                "cuda_runtime": "13.0",
                "cuBLASLt": "13.1.0",
                "cuDNN": "9.14.0",
            },
        )
        self.assertEqual(found["records"][0], {"example": "1", "library": "cuDNN 9.14.0"})
        with self.assertRaisesRegex(SystemExit, "expected one device"):
            examples.collected([lines[0], lines[1] | {"device": "another"}])


class Session(unittest.TestCase):
    """A run of cases, with a PyTorch that has no GPU: what it writes, also when it is resumed."""

    def run_cases(self, folder, *arguments, cases=("a", "b"), budget="100"):
        cuda = types.SimpleNamespace(
            get_device_name=lambda _: "a GPU", synchronize=lambda: None, empty_cache=lambda: None
        )
        torch = types.SimpleNamespace(cuda=cuda, __version__="2.11", version=types.SimpleNamespace(cuda="13.0"))
        parser = session.parser("", "made.json")
        given = ["--output", f"{folder}/made.json", "--worker", "--budget", budget, *arguments]

        def run(item, _):
            if item == "broken":
                raise RuntimeError("it failed")
            return {"case": item, "dtype": "f32", "seconds": 1.0}

        bench = session.Bench(
            script="bench/made.py",
            chosen=lambda _: cases,
            record_of=lambda item: {"case": item, "dtype": "f32"},
            run=run,
            outcome=lambda found: "done",
            compile_ahead=None,
            use_torch=lambda: None,
            settings=lambda: {"multiprocessors": 132},
            versions=lambda: {"cupy": None},
        )
        with (
            unittest.mock.patch.object(sys, "argv", ["made.py", *given]),
            unittest.mock.patch.object(session.gpu_timing, "torch", torch),
            unittest.mock.patch.object(session, "big_copy_bandwidth", lambda: 3e12),
            unittest.mock.patch.object(session.bridge, "system", lambda: {"version": "0.1.0", "nvrtc": "13.0"}),
            unittest.mock.patch.object(session.bridge, "close", lambda: None),
            unittest.mock.patch.dict(sys.modules, {"triton": types.SimpleNamespace(__version__="3.6")}),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            return session.main(bench, session.parsed(parser), None)

    def test_a_run_keeps_the_format(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_cases(folder), session.DONE)
            found = record.read(f"{folder}/made.json")
        self.assertEqual(record.problems(found), [])
        self.assertEqual((found["suite"], found["device"], found["settings"]["copy_gbps"]), ("made", "a GPU", 3000.0))
        self.assertEqual(found["versions"]["cupy"], None)
        self.assertEqual([one["case"] for one in found["records"]], ["a", "b"])

    def test_a_case_that_fails_is_a_record(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_cases(folder, cases=("broken", "a")), session.FAILED)
            found = record.read(f"{folder}/made.json")
        self.assertEqual(found["records"][0]["error"], "RuntimeError: it failed")
        self.assertEqual(found["records"][1]["case"], "a")

    def test_a_resumed_run_goes_on_and_says_what_broke_off(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/made.json"
            self.run_cases(folder, cases=("a",))
            before = record.read(path)
            running = {"case": "b", "dtype": "f32", "running": True}
            record.write(path, before | {"command": "the first part", "records": [*before["records"], running]})
            self.run_cases(folder, "--resume", path, cases=("a", "b", "c"))
            found = record.read(path)
            self.assertEqual([one["case"] for one in found["records"]], ["a", "b", "c"])
            self.assertEqual(found["command"], f"the first part; bench/made.py --output {path}")
            self.assertIn("the process ended in the middle of it", found["records"][1]["error"])
            record.write(path, found | {"device": "another"})
            with self.assertRaisesRegex(SystemExit, "cannot resume .*: its device is another, here it is a GPU"):
                self.run_cases(folder, "--resume", path)


class Tables(unittest.TestCase):
    def test_the_pages_hold_what_the_records_say(self):
        shown = tables.shown()
        self.assertEqual(len(shown), 26)
        for key, (result, device) in shown.items():
            page = (record.ROOT / result.pages[device]).read_text(encoding="utf-8")
            # Line by line, since the difference of whole pages takes unittest minutes to show.
            written = tables.updated(result, device, record.read(record.RESULTS / f"{key}.json"))
            for number, (old, new) in enumerate(zip(page.splitlines(), written.splitlines()), 1):
                self.assertEqual(old, new, f"{result.pages[device]}, line {number}: bench/tables.py update {key}")
            self.assertTrue(page == written, f"{result.pages[device]}: bench/tables.py update {key}")

    def test_every_table_has_a_page_and_every_picture_is_there(self):
        for result in suites.results():
            self.assertEqual(result.devices if result.table else (), tuple(result.pages), result.name)
            for picture in filter(None, map(result.picture_of, result.pages)):
                self.assertTrue((record.ROOT / picture).exists(), picture)

    def test_a_table_says_device_driver_and_commit(self):
        for key, (result, device) in tables.shown().items():
            found = record.read(record.RESULTS / f"{key}.json")
            text = tables.text_of(found, result)
            for told in (found["device"], f"driver {found['driver'] or 'not recorded'}", found["commit"][:12]):
                self.assertIn(told, text, key)

    def test_a_product_behind_the_tail_has_columns_where_there_is_one(self):
        result, _ = tables.shown()["examples-h100"]
        found = record.read(record.RESULTS / "examples-h100.json")
        plain = next(one for one in found["records"] if not one.get("consumer"))
        self.assertNotIn("all three ms", tables.text_of(found | {"records": [plain]}, result))
        behind = plain | {"consumer": "fp8 linear", "consumer_ms": 1.25, "all_ms": 2.5}
        told = tables.text_of(found | {"records": [plain, behind]}, result)
        self.assertIn("| one launch ms | product behind ms | all three ms | tail GB/s |", told)
        rate = f"{plain['gbps']:.0f}"
        self.assertIn(f"| – | – | – | {rate} |", told)
        self.assertIn(f"| – | 1.250 | 2.500 | {rate} |", told)

    def test_the_counts_of_the_h200_are_those_of_its_records(self):
        page = (record.ROOT / "docs/measurements/h200.md").read_text(encoding="utf-8")

        def cells(suite, counted):
            for device in ("h200", "h100"):
                found = [one["ratio"] for one in record.read(record.RESULTS / f"{suite}-{device}.json")["records"]]
                verdicts = [verdict for verdict in map(counted, found) if verdict is not None]
                yield f"{sum(verdicts)} of {len(verdicts)}"

        def is_slower(ratio):
            return ratio["epifuse"] > 1.01 * ratio["compile"] if "compile" in ratio else None

        for suite, label, counted in (
            ("pointwise", "at most 1.05 of the copy", lambda ratio: round(ratio["epifuse"], 2) <= 1.05),
            ("pointwise", "slower than `torch.compile`", is_slower),
            ("reductions", "at most 1.10 of the limit", lambda ratio: round(ratio["epifuse"], 2) <= 1.10),
            ("reductions", "slower than `torch.compile`", is_slower),
            ("examples", "at most 1.05 of the copy", lambda ratio: round(ratio, 2) <= 1.05),
        ):
            self.assertIn(f"| {suite}: {label} | {' | '.join(cells(suite, counted))} |", page)

    def test_a_page_gets_no_table_of_another_device(self):
        result, _ = tables.shown()["pointwise-h100"]
        found = record.read(record.RESULTS / "pointwise-h200.json")
        with self.assertRaisesRegex(SystemExit, "the record pointwise-h100 is of NVIDIA H200"):
            tables.updated(result, "h100", found)

    def test_a_page_without_a_place_is_told(self):
        with self.assertRaisesRegex(SystemExit, "written by bench/tables.py pointwise -->"):
            tables.markdown.in_page("# No table\n", "pointwise", "")

    def test_names_that_have_no_table_are_told(self):
        with self.assertRaisesRegex(SystemExit, "a table of soak; there are pointwise-h100, pointwise-h200"):
            tables.update(["soak"], record.RESULTS)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(SystemExit, "holds none of examples-h100.json, examples-h200.json"):
                tables.update(["examples"], pathlib.Path(folder))


if __name__ == "__main__":
    unittest.main()
