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

    def test_no_name_says_a_device(self):
        for path in [*record.RESULTS.iterdir(), *BENCH.iterdir()]:
            self.assertNotRegex(path.name, "[hHaAbB][12]00", path.name)


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
            record.write(
                path, before | {"records": [*before["records"], {"case": "b", "dtype": "f32", "running": True}]}
            )
            self.run_cases(folder, "--resume", path, cases=("a", "b", "c"))
            found = record.read(path)
            self.assertEqual([one["case"] for one in found["records"]], ["a", "b", "c"])
            self.assertIn("the process ended in the middle of it", found["records"][1]["error"])
            record.write(path, found | {"device": "another"})
            with self.assertRaisesRegex(SystemExit, "cannot resume .*: its device is another, here it is a GPU"):
                self.run_cases(folder, "--resume", path)


class Tables(unittest.TestCase):
    def test_the_pages_hold_what_the_records_say(self):
        shown = [result for result in suites.results() if result.page]
        self.assertEqual(len(shown), 5)
        for result in shown:
            page = (record.ROOT / result.page).read_text(encoding="utf-8")
            # Line by line, since the difference of whole pages takes unittest minutes to show.
            written = tables.updated(result, record.read(record.RESULTS / f"{result.name}.json"))
            for number, (old, new) in enumerate(zip(page.splitlines(), written.splitlines()), 1):
                self.assertEqual(old, new, f"{result.page}, line {number}: bench/tables.py update {result.name}")
            self.assertTrue(page == written, f"{result.page}: bench/tables.py update {result.name}")

    def test_every_table_has_a_page_and_every_picture_is_there(self):
        for result in suites.results():
            self.assertEqual(result.table is None, result.page is None, result.name)
            self.assertTrue(result.picture is None or (record.ROOT / result.picture).exists(), result.picture)

    def test_a_page_without_a_place_is_told(self):
        with self.assertRaisesRegex(SystemExit, "written by bench/tables.py pointwise -->"):
            tables.markdown.in_page("# No table\n", "pointwise", "")

    def test_names_that_have_no_table_are_told(self):
        with self.assertRaisesRegex(SystemExit, "no page has a table of soak; there are pointwise, reductions"):
            tables.update(["soak"], record.RESULTS)


if __name__ == "__main__":
    unittest.main()
