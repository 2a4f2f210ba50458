"""bench/kernelbench.py on problem files in KernelBench's format, as of a checkout."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import kernelbench  # noqa: E402
import level2  # noqa: E402
import markdown  # noqa: E402
import record as record_file  # noqa: E402
import table_models  # noqa: E402


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "KernelBench" / "level2"
    folder.mkdir(parents=True)
    for number in (9, 45, 99):
        (folder / f"{number}_Some_Name.py").write_text(level2.text(number, small=True))
    (folder / "2_Even.py").write_text("raise RuntimeError('even problems do not run')")
    return tmp_path


def test_a_checkout(checkout, tmp_path):
    out = tmp_path / "out.json"
    kernelbench.main(
        [
            str(checkout),
            "--device",
            "cpu",
            "--contestants",
            "epifuse",
            "--seconds",
            "0.01",
            "--output",
            str(out),
        ]
    )
    document = record_file.read(out)
    assert record_file.problems(document) == [] and document["suite"] == "kernelbench"
    records = document["records"]
    assert [(record["problem"], record["dtype"]) for record in records] == [
        (name, dtype) for name in ("9_Some_Name", "45_Some_Name", "99_Some_Name") for dtype in ("f32", "f16")
    ]
    for record in records:
        assert record["right"] and len(record["chains"]) == 1 and record["epifuse_ms"] > 0 and record["left"]
    assert markdown.written(table_models.KERNELBENCH, document).count("| 45_Some_Name |") == 2


def test_a_problem_that_fails_is_a_line_of_the_table(tmp_path):
    file = tmp_path / "3_Broken.py"
    file.write_text(level2.text(9, small=True).replace("return x", "return x + undefined"))
    result = kernelbench.main(
        [str(file), "--device", "cpu", "--contestants", "epifuse", "--seconds", "0.01", "--dtypes", "f32"]
    )
    assert "undefined" in result["records"][0]["eager_error"] and not result["records"][0]["right"]


def test_bad_paths(tmp_path):
    with pytest.raises(SystemExit, match="expected a checkout"):
        kernelbench.problems_of(tmp_path, 2, [])


def test_the_problems_of_level_1_are_a_kernel_each(tmp_path):
    """A share of them; tests/reports/kernelbench-small.json has all."""
    out = tmp_path / "out.json"
    asked = "--rebuilt --small --level 1 --device cpu --contestants epifuse --seconds 0 --dtypes bf16".split()
    kernelbench.main([*asked, "--problems", "33,37,41,46,50,51", "--output", str(out)])
    records = record_file.read(out)["records"]
    assert [record["problem"].partition("_")[0] for record in records] == "33 37 41 46 50 51".split()
    for record in records:
        assert record["right"] and not record["fallback"] and "epifuse_ms" not in record, record
        assert len(record["chains"]) == (0 if record["problem"] == "50_conv2d" else 1), record


def test_the_rebuilt_problems_give_what_the_table_of_facts_says():
    for number, problem in level2.PROBLEMS.items():
        names = {}
        exec(level2.text(number), names)
        with torch.device("meta"):
            model = names["Model"](*names["get_init_inputs"]())
            assert tuple(model.producer(*names["get_inputs"]()).shape) == problem.given, number


def test_results_that_cancel_to_nothing_are_compared_in_f64():
    kernelbench.torch = torch
    truth = torch.zeros(64, dtype=torch.float64)
    eager = torch.full((64,), 1e-8)

    def right(result):
        return kernelbench.is_right(result, eager, "f32", lambda: truth)

    assert right(torch.full((64,), -1.9e-8)) and not right(torch.full((64,), 2.1e-8))
    assert not right(torch.full((64,), float("nan"))) and not right(torch.zeros(63))

    def never():
        raise AssertionError("only what differs is looked at closely")

    usual = torch.linspace(-1, 1, 64)
    assert kernelbench.is_right(usual + 5e-4, usual, "f32", never)
    model = torch.nn.Linear(3, 2)
    found = kernelbench.in_f64(model, [torch.ones(4, 3)])
    assert found.dtype == torch.float64 and next(model.parameters()).dtype == torch.float32
