"""Tails of NumPy's arrays on the CPU device: calls, results, inspection, bad input."""

import json
import os
import pathlib
import pickle
import re
import subprocess
import threading

import numpy as np
import pytest
from tails import as_written

import epifuse
from epifuse import _tail

TAIL = as_written("(minimum(x, 0.5) + bias) * 2")


def operands(shape=(4, 8, 6), seed=0):
    random = np.random.default_rng(seed)
    return random.standard_normal(shape, dtype=np.float32), random.standard_normal((shape[1], 1), dtype=np.float32)


def expected(x, bias):
    return (np.minimum(x, np.float32(0.5)) + bias) * 2


def test_arguments_by_position_and_by_name():
    x, bias = operands()
    for y in (TAIL(x, bias), TAIL(x, bias=bias), TAIL(bias=bias, x=x)):
        assert type(y) is np.ndarray and y.dtype == np.float32
        np.testing.assert_array_equal(y, expected(x, bias))


def test_run_time_scalars():
    tail = epifuse.compile("scalar alpha; alpha * x + beta", ["beta"])
    assert tail.inputs == ("x",) and tail.scalars == ("beta", "alpha")  # those of the call stand first
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(tail(x, 0.5, 2), 2 * x + 0.5)
    np.testing.assert_array_equal(tail(x, beta=np.float64(0.5), alpha=True), x + 0.5)


UNORDERED = (
    "operands are given by position, but nothing states the order of this chain's (bias, x): pass them by name, "
    "tail(bias=…, x=…) (one may stay without), or state it in the text: 'input bias, x; …'"
)


def test_operands_by_position_need_a_stated_order():
    x, bias = operands()
    tail = epifuse.compile("-bias + x")
    for call in (
        lambda: tail(x, bias),
        lambda: tail(x),
        lambda: tail(x, bias, out=x.copy()),
        lambda: tail.prepare(x, bias),
        lambda: tail.plan(x, bias),
        lambda: tail.source("f32[3]", "f32[3]"),
        lambda: epifuse.gradient(tail, "x").forward(x, bias),
    ):
        with pytest.raises(TypeError, match=re.escape(UNORDERED)):
            call()
    stated = epifuse.compile("input x, bias; -bias + x")
    for y in (
        tail(x=x, bias=bias),
        tail(x, bias=bias),  # the one that has no name
        tail(bias, x=x),
        stated(x, bias),
        epifuse.compile(stated.text)(x, bias),
        pickle.loads(pickle.dumps(stated))(x, bias),
        pickle.loads(pickle.dumps(tail))(x, bias=bias),
    ):
        np.testing.assert_array_equal(y, x - bias)
    tail.prepare(x, bias=bias)
    assert tail.plan("f16[4,3]", bias="f64[3]").summary["operands"][0]["name"] in ("x", "bias")
    assert tail.source(x, bias=bias) == tail.source(bias=bias, x=x)
    gradient = epifuse.gradient(tail, "x")
    dx = gradient.backward(*gradient.backward_arrays((bias, x), (x,), (x,)))  # as gradient.operands lists them
    np.testing.assert_array_equal(dx, x)


def test_run_time_scalars_follow_the_one_operand_without_a_name():
    x, bias = operands()
    tail = epifuse.compile("scalar a, b; bias * b + x * a")
    np.testing.assert_array_equal(tail(x, 2, 3, bias=bias), bias * 3 + x * 2)
    np.testing.assert_array_equal(tail(x, 3, bias=bias, a=2), bias * 3 + x * 2)
    np.testing.assert_array_equal(tail(2, 3, x=x, bias=bias), bias * 3 + x * 2)
    with pytest.raises(TypeError, match="takes 4 arguments .*, but 5 were given"):
        tail(x, 2, 3, 4, bias=bias)
    with pytest.raises(TypeError, match="scalar 'b' is missing"):
        tail(x, 2, bias=bias)
    with pytest.raises(TypeError, match="nothing states the order"):
        tail(x, bias, 2, 3)


def test_fused_functions_take_their_signatures_order():
    x, bias = operands()

    @epifuse.fuse
    def tail(x, bias):
        return -bias + x

    np.testing.assert_array_equal(tail(x, bias), x - bias)
    assert "iteration space" in repr(tail.plan(x, bias))


def test_several_results_and_their_types():
    tail = as_written("t = x + bias; return relu(t), t > 0")
    x, bias = operands()
    y, positive = tail(x, bias)
    np.testing.assert_array_equal(y, np.maximum(x + bias, 0))
    np.testing.assert_array_equal(positive, x + bias > 0)
    assert positive.dtype == np.bool_
    assert [one.dtype for one in tail(x, bias, dtype=["f64", np.uint8])] == [np.float64, np.uint8]


def test_the_types_of_the_operands_are_promoted():
    x, bias = operands()
    assert TAIL(x.astype(np.float16), bias).dtype == np.float32
    assert TAIL(x.astype(np.float16), bias.astype(np.float16)).dtype == np.float16
    assert TAIL(x.astype(np.int32), bias).dtype == np.float32
    assert epifuse.compile("n + 1")(x.astype(np.int32)).dtype == np.int32
    assert TAIL(x, bias, dtype="float64").dtype == np.float64
    assert epifuse.compile("x + 1", dtype="f16")(x).dtype == np.float16


def test_bf16_and_fp8_are_those_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, bias = operands()
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        narrow = getattr(ml_dtypes, name)
        y = TAIL(x.astype(narrow), bias, dtype=narrow)
        assert y.dtype == narrow
        exact = expected(x.astype(narrow).astype(np.float32), bias)
        np.testing.assert_array_equal(y.view(np.uint8), exact.astype(narrow).view(np.uint8))


def test_out_and_in_place():
    x, bias = operands()
    y = np.empty_like(x)
    assert TAIL(x, bias, out=y) is y
    np.testing.assert_array_equal(y, expected(x, bias))
    before = x.copy()
    TAIL(x, bias, out=x)
    np.testing.assert_array_equal(x, expected(before, bias))
    t, s = np.empty(3, np.float32), np.empty(3, bool)
    assert epifuse.compile("return x + 1, x > 0")(np.zeros(3, np.float32), out=(t, s)) == (t, s)


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x,
        lambda x: x[::-1, :, ::2],
        lambda x: x.transpose(2, 1, 0),
        np.asfortranarray,
        lambda x: np.broadcast_to(x[:1], x.shape),
    ],
)
def test_any_strides(layout):
    x = layout(operands((6, 6, 6))[0])
    bias = operands((6, 6, 6))[1]
    np.testing.assert_array_equal(TAIL(x, bias), expected(x, bias))


def test_a_result_lies_in_memory_as_its_operand_does():
    x, bias = operands((6, 5, 4))
    turned = x.transpose(2, 1, 0)
    assert TAIL(turned, np.zeros((5, 1), np.float32)).strides == turned.strides
    assert TAIL(x, bias[:5]).flags.c_contiguous


def test_reductions():
    x, _ = operands((4, 8, 6))
    y = epifuse.compile("softmax(x, axis=-1)")(x)
    e = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True), rtol=1e-6)
    mean, centred = epifuse.compile("m = mean(x, 2); return m, x - mean(x, 2, true)")(x)
    np.testing.assert_allclose(mean, x.mean(2), atol=1e-6)
    assert centred.shape == x.shape


def test_empty_and_single_elements():
    assert epifuse.compile("x + 1")(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert epifuse.compile("x + 1")(np.array(2, np.float32)).shape == ()


X, BIAS = operands()
BAD = [
    (lambda: TAIL(X), TypeError, "operand 'bias' is missing"),
    (lambda: TAIL(X, BIAS, BIAS), TypeError, "takes 2 arguments"),
    (lambda: TAIL(X, BIAS, scale=BIAS), TypeError, "no operand 'scale'"),
    (lambda: TAIL(X, X, x=X), TypeError, "'x' is given twice"),
    (lambda: TAIL(X, 2.0), TypeError, "operand 'bias' takes an array, found float"),
    (lambda: TAIL([1.0], BIAS), TypeError, "found list"),
    (lambda: TAIL(X, np.zeros(5, np.float32)), ValueError, "does not broadcast"),
    (lambda: TAIL(X.astype(np.complex64), BIAS), ValueError, "complex64"),
    (lambda: TAIL(X.astype(">f4"), BIAS), ValueError, "other byte order"),
    (lambda: TAIL(np.zeros((1,) * 9, np.float32), BIAS), ValueError, "9 dimensions"),
    (lambda: TAIL(X, BIAS, out=np.zeros(3, np.float32)), ValueError, "output 'out' has shape"),
    (lambda: TAIL(X, BIAS, out=X[:, :, ::-1]), ValueError, "overlaps"),
    (lambda: TAIL(X, BIAS, out=[X, X]), ValueError, "out has 2 arrays"),
    (lambda: TAIL(X, BIAS, out=3), TypeError, None),
    (lambda: TAIL(X, BIAS, dtype="f33"), ValueError, "f33"),
    (lambda: TAIL(X, BIAS, dtype=["f32", "f32"]), ValueError, "dtype gives 2 types"),
    (lambda: epifuse.compile("x * alpha", ["alpha"])(X, X), TypeError, "scalar 'alpha' takes a number"),
    (lambda: epifuse.compile("x * alpha", "alpha"), TypeError, "sequence of names"),
    (lambda: epifuse.compile("sigmod(x)"), ValueError, "did you mean 'sigmoid'"),
    (lambda: epifuse.compile(3), TypeError, "found int"),
    (lambda: TAIL.plan("f16(3)", BIAS), ValueError, "does not describe an array"),
    (lambda: TAIL.plan(X), TypeError, "'bias' is missing"),
    (lambda: epifuse.compile("cast(scalar_, f32)", ["scalar_"])(1.0), ValueError, "pass out="),
]


@pytest.mark.parametrize("call, kind, text", BAD, ids=[str(text) for _, _, text in BAD])
def test_bad_input(call, kind, text):
    with pytest.raises(kind) as caught:
        call()
    assert text is None or text in str(caught.value)


def test_out_that_is_read_only():
    y = np.zeros_like(X)
    y.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        TAIL(X, BIAS, out=y)


def test_plan_source_and_pictures():
    plan = TAIL.plan("f16[1024,8192]", "f32[1024,1]", dtype="f16")
    assert plan.schedule in ("flat", "by_row") and plan.bytes_written == 2 * 1024 * 8192
    assert "iteration space" in repr(plan) and "<svg" in plan._repr_html_()
    with pytest.raises(AttributeError, match="a plan has no 'speed'"):
        plan.speed
    source = TAIL.source(X, bias=BIAS)
    assert "__global__" in source
    page = TAIL._repr_html_()
    assert "minimum" in page and page.count("<rect") == len(TAIL.values()) + 1
    assert repr(TAIL) == "<epifuse.Tail (x, bias) -> out: input x, bias; (minimum(x, 0.5) + bias) * 2>"


def test_ptx():
    if epifuse.doctor()["nvrtc"] is None:
        pytest.skip("no NVRTC here")
    assert ".visible .entry" in TAIL.ptx(X, BIAS, arch=90)


def test_tails_can_be_pickled():
    again = pickle.loads(pickle.dumps(TAIL))
    np.testing.assert_array_equal(again(X, BIAS), TAIL(X, BIAS))


def test_many_threads():
    wrong = []

    def work(seed):
        x, bias = operands((3, 8, 50), seed)
        for _ in range(50):
            if not np.array_equal(TAIL(x, bias), expected(x, bias)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_doctor_and_stats():
    report = epifuse.doctor()
    assert report["version"] == epifuse.__version__
    TAIL(X, BIAS)
    stats = epifuse.stats()["cpu"]
    assert stats["launches"] > 0
    # Every counter of EngineStats, by its name there.
    counters = set(re.findall(r"^  (?:std::uint64_t|double) (\w+) = 0;", engine_stats(), re.M))
    assert len(counters) == 10 and set(stats) == counters
    assert epifuse.kernel_stats()["cpu"] == []  # the CPU device has no kernels


def engine_stats():
    header = pathlib.Path(__file__).parents[2] / "include" / "epifuse" / "engine.hpp"
    return header.read_text().split("struct EngineStats {")[1].split("};")[0]


# Members of the plan that the tool adds: of the compiled kernel, and of the bandwidth that it is asked for.
OF_THE_TOOL = {"architecture", "registers", "shared_bytes", "spilled_bytes", "bandwidth", "seconds_at_bandwidth"}


def test_a_plans_summary_is_the_tools():
    tool = os.environ.get("EPIFUSE_TOOL")
    for text, array in (("softmax(x, -1)", "f16[512,1000]"), ("mean(group_norm(x, 4), 2)", "f16[32,64,4096]"), ("relu(x)", "f32[8]")):
        summary = epifuse.compile(text).plan(array, arch=90).summary
        assert (summary["reduction"] is None) == (text == "relu(x)")
        if summary["reduction"] is not None:
            assert summary["reduction"]["rows"] > 0 and summary["reduction"]["passes"][0]["reads"]
        if tool is None:
            continue
        arguments = ["dump", text, f"x={array}", "--emit", "plan", "--arch", "90", "--json"]
        done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=True)
        expected = json.loads(done.stdout)["plan"]
        assert set(expected) - set(summary) == OF_THE_TOOL and set(summary) <= set(expected)
        if summary["reduction"] is not None:
            assert summary["reduction"] == expected["reduction"]
        assert all(summary[name] == expected[name] for name in ("schedule", "steps", "coordinates", "bytes_per_thread"))


def test_what_no_plan_can_be_made_for():
    tail = epifuse.compile("x + 1")
    for arch in (-5, 1, 100_000):
        with pytest.raises(ValueError, match="architecture"):
            tail.plan("f16[8]", arch=arch)
    for array in ("f16[99999999999999999999]", "f16[" + ",".join("1" * 9) + "]"):
        with pytest.raises(ValueError, match="the shape .* expected at most 8 integers of 64 bits"):
            tail.plan(array)
    with pytest.raises(ValueError, match=r"':nhwc' is for the shape \[N,C,H,W\]"):
        tail.plan("f16[2,3,4]:nhwc")


def test_a_plan_is_for_the_memory_of_the_gpu_at_hand(monkeypatch):
    tail = epifuse.compile("gelu(linear(x, w, b)) + r")
    shapes = {"x": "bf16[32768,4096]", "w": "bf16[1024,4096]", "b": "bf16[1024]", "r": "bf16[32768,1024]"}

    monkeypatch.setattr(_tail, "_first_gpu", _tail._first_gpu.__wrapped__)  # without its memory

    def schedule(bandwidth):
        gpu = {"architecture": 90, "multiprocessors": 132, "l2_bytes": 50 << 20, "peak_bandwidth": bandwidth}
        monkeypatch.setattr(_tail, "devices", lambda: [gpu])
        return tail.plan(**shapes).schedule

    assert schedule(2e12) == "gemm"
    assert schedule(10e12) != "gemm"
