"""torch.compile(backend="epifuse") with Inductor running, on the CPU device: what its code calls, how tensors lie, its
cache, and through which of its doors the package goes. That no other test's graph falls back, conftest.py sees to."""

import ast
import logging
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch._inductor import config  # noqa: E402
from torch._inductor.custom_graph_pass import CustomGraphPass  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402

import epifuse  # noqa: E402
from test_backend import TOLERANCES, compiled, load  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def generated(model, *inputs, options=None):
    """What Inductor wrote for the graph: the calls behind the last convolution, all of it, and the report."""
    with torch.no_grad(), config.patch(fx_graph_cache=False):
        found, (code,) = run_and_get_code(torch.compile(model, backend="epifuse", options=options), *inputs)
        want = model(*inputs)
    torch.testing.assert_close(found, want, **TOLERANCES[torch.float32])
    assert options or found.stride() == want.stride()
    calls = [
        line.strip() for line in code[code.rindex("extern_kernels.convolution(") :].split("runner =")[0].splitlines()
    ]
    return (
        [line for line in calls if re.match(r"(\w+ = )?torch.ops.epifuse|cpp_fused", line)],
        code,
        epifuse.reports()[-1],
    )


@pytest.mark.parametrize("number", [1, 31, 57, 5])
def test_a_convolution_gives_its_tail_channels_last_and_nothing_is_copied(number):
    """What the convolution is to lie as, Inductor writes into its code: what would lie otherwise fails."""
    model, inputs = load(number)
    calls, code, report = generated(model, *inputs)
    assert report.producers == "inductor" and len(report.kernels) == 1
    assert len(calls) == 1 and "torch.ops.epifuse.launch.default(" in calls[0], calls
    (convolution,) = [line for line in code.splitlines() if "extern_kernels.convolution(" in line]
    assert strides_of(convolution.split()[0], code)[1] == 1  # channels-last
    assert "bias=None" in convolution and ".contiguous(" not in code and "clone" not in code


def strides_of(name, code):
    """As Inductor's code asserts them."""
    (line,) = [line for line in code.splitlines() if re.search(rf"assert_(size_stride|tensor_metadata)\({name},", line)]
    return eval(re.findall(r"\([\d, ]+\)", line)[1])


@pytest.mark.parametrize("number", [17, 91])
@pytest.mark.parametrize("options", [None, {"channels_last": True}])
def test_rows_of_an_image_are_read_in_the_order_of_the_model(number, options):
    calls, code, report = generated(load(number)[0], *load(number)[1], options=options)
    if options:  # PyTorch 2.7 then turns what leaves the graph
        calls = [line for line in calls if "cpp_fused" not in line]
    assert len(calls) == 1 and "torch.ops.epifuse.launch.default(" in calls[0], calls
    assert "'0.1.2.3," in calls[0] and len(report.kernels) == 1
    (convolution,) = [line for line in code.splitlines() if "extern_kernels.convolution(" in line]
    assert strides_of(convolution.split()[0], code)[1] == 1


@pytest.mark.parametrize(
    "chain, results, over",
    [
        ("softmax(x0, axis=3) + x1", "f32:", True),
        ("softmax(x0, axis=3) + x1", "f32:0.1.2.3", True),
        ("softmax(x0, axis=3) + x1", "f32:0.2.3.1", False),
        ("softmax(x0, axis=3) + x1", "f16:", False),
        ("sum(x0, axis=3) + 1", "f32:", False),
        ("t = softmax(x0, axis=3) + x1; return t, t * 2", "f32:,f32:", False),
    ],
)
def test_what_lies_otherwise_is_copied_and_the_copy_is_written_over(chain, results, over, monkeypatch):
    """By one of our kernels; what lies in order is read as it lies, and is nobody's to write over."""
    from epifuse import _torch_ops

    ran, made = [], _torch_ops.launcher_for

    class Spy:
        def __init__(self, chain, results):
            self.chain, self.launcher = chain, made(chain, results)

        def run(self, *values):
            ran.append((self.chain, "run"))
            return self.launcher.run(*values)

        def launch(self, *arguments):
            ran.append((self.chain, "over"))
            return self.launcher.launch(*arguments)

    monkeypatch.setattr(_torch_ops, "launcher_for", Spy)
    x, bias = torch.randn(2, 8, 5, 6), torch.randn(6)
    inputs = [x, bias] if "x1" in chain else [x]
    orders = "0.1.2.3" + "," * (len(inputs) - 1)
    want = torch.ops.epifuse.launch(inputs, [], chain, results, orders)
    assert ran == [(chain, "run")]
    last = x.to(memory_format=torch.channels_last)
    kept = last.clone()
    found = torch.ops.epifuse.launch([last, *inputs[1:]], [], chain, results, orders)
    assert ran[1:] == [("x0", "run"), (chain, "over" if over else "run")]
    assert torch.equal(last, kept)
    for one, other in zip(found, want):
        assert torch.equal(one, other) and one.stride() == other.stride()


def test_kernels_read_and_write_small_types_in_inductors_code():
    weight = torch.randn(16, 16)

    def function(x, labels):
        product = F.linear(x, weight)
        scale = product.abs().amax(-1, keepdim=True) / 448
        bytes_ = (product * 20).round().clamp(-128, 127).to(torch.int8)
        valid = labels != -100
        scaled = (product / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        return scaled, bytes_, (product * valid[:, None]).sum() / valid.sum()

    inputs = torch.randn(4, 16), torch.tensor([3, -100, 2, 2**40])
    with torch.no_grad():
        found, want = torch.compile(function, backend="epifuse")(*inputs), function(*inputs)
    report = epifuse.reports()[-1]
    assert report.producers == "inductor" and {name for name, _ in report.left} == {"mm"}
    for one, other in zip(found[:2], want[:2]):
        assert one.dtype is other.dtype and torch.equal(one.float(), other.float())
    torch.testing.assert_close(found[2], want[2])


def test_two_convolutions_stay_channels_last_between():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.SiLU(), nn.Conv2d(16, 8, 3), nn.Hardswish(), nn.AvgPool2d(2)
    ).eval()
    _, code, report = generated(model, torch.randn(2, 3, 16, 16))
    assert len(report.kernels) == 2
    first, second = re.findall(r"= extern_kernels.convolution\((\w+),", code)
    (written, *_) = re.findall(r"torch.ops.epifuse.launch_over.default\((\w+),", code)
    assert second == written  # what the first tail wrote is what the second convolution reads


def test_the_operator_keeps_the_order_of_its_operand():
    """Fake tensors: whoever compiles knows the strides before anything runs."""
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        last = torch.empty(2, 8, 5, 6).to(memory_format=torch.channels_last)
        bias = torch.empty(8, 1, 1)
        for operator in (torch.ops.epifuse.tail, torch.ops.epifuse.launch):
            kept, given = operator([last, bias], [], "t = x + bias; return relu(t), t * 2", "f32:,f16:0.1.2.3")
            assert kept.stride() == last.stride() and given.is_contiguous() and given.dtype == torch.float16
            assert torch.Tag.flexible_layout in operator.default.tags
        (turned,) = torch.ops.epifuse.launch([last, bias], [], "x + bias", "f32:", "0.1.2.3,")
        assert turned.is_contiguous()


def test_the_operators_pass_pytorchs_own_checks():
    x, bias = torch.randn(2, 8, 5, 6).to(memory_format=torch.channels_last), torch.randn(6)
    arguments = ([x, bias], [2.0], "scalar a; return softmax(x0, axis=3) * a + x1", "f32:")
    torch.library.opcheck(torch.ops.epifuse.launch.default, (*arguments, "0.1.2.3,"))
    torch.library.opcheck(torch.ops.epifuse.launch_over.default, (x, [bias], *arguments[1:], 0, ""))


def test_the_fastest_layout_is_kept(monkeypatch):
    """Three forms of one graph give the same; the one that the first call finds fastest runs from then on."""
    from epifuse import _inductor, _layout

    ran = []

    def measure(candidates, arguments):
        for name, candidate in candidates.items():
            ran.append((name, candidate(*arguments)[0]))
        return {name: -float(i) for i, name in enumerate(candidates)}

    monkeypatch.setattr(_layout, "may_be_measured", lambda graph, inputs: True)
    monkeypatch.setattr(_inductor, "_measure", measure)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    model, inputs = load(17)
    run, report = compiled(model, *inputs)
    assert list(report.layouts) == ["channels-last, rows copied", "channels-last", "as given"] and len(ran) == 3
    with torch.no_grad():
        for _, found in ran:
            torch.testing.assert_close(found, model(*inputs), **TOLERANCES[torch.float32])
        torch.testing.assert_close(run(*inputs), model(*inputs), **TOLERANCES[torch.float32])
    assert len(ran) == 3


@pytest.mark.falls_back
def test_eager_pytorch_takes_over_where_inductor_fails(monkeypatch, caplog):
    from epifuse import _inductor

    def fail(*arguments, **named):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(_inductor, "compiled", fail)
    model, inputs = load(1)
    with caplog.at_level(logging.INFO, "epifuse"):
        _, report = compiled(model, *inputs)
    assert "Inductor failed" in caplog.text and report.producers == "eager" and len(report.kernels) == 1
    assert report.why_eager == "Inductor failed: RuntimeError: no compiler"


# ---- behaviour that is Inductor's


def test_random_numbers_are_drawn_by_pytorch_in_eagers_order():
    def model(x):
        a = F.dropout(x.relu() + 1, 0.5, True) * 2
        b = torch.randn_like(x) + x
        return F.dropout(b.sigmoid(), 0.25, True) + a * torch.rand(6, 8)

    x = torch.randn(6, 8)
    run = torch.compile(model, backend="epifuse")
    for seed in range(3):
        with torch.no_grad():
            torch.manual_seed(seed)
            found, behind = run(x), torch.rand(3)
            torch.manual_seed(seed)
            torch.testing.assert_close(found, model(x))
            assert torch.equal(behind, torch.rand(3))
    report = epifuse.reports()[-1]
    assert report.producers == "inductor" and report.kernels
    assert not torch.equal(run(x), run(x))


def test_a_marked_dimension_is_compiled_once():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.Flatten(2), nn.Softmax(-1), nn.Linear(16, 6)).eval()
    run = torch.compile(model, backend="epifuse")
    with torch.no_grad():
        before = len(epifuse.reports())
        for batch in (4, 7, 2):
            x = torch.randn(batch, 3, 6, 6)
            torch._dynamo.mark_dynamic(x, 0)
            found, want = run(x), model(x)
            torch.testing.assert_close(found, want, **TOLERANCES[torch.float32])
            assert found.stride() == want.stride()
    assert len(epifuse.reports()) == before + 1 and epifuse.reports()[-1].producers == "inductor"


def test_inputs_are_written_after_they_were_read():
    """Inductor's graph holds the writes themselves."""

    def function(x, y):
        old = x.sigmoid() * 2
        x.add_(y)
        new = torch.softmax(x, 1)
        y.copy_(old)
        return old + new, x[:2].exp() + 1

    tensors = torch.randn(6, 8), torch.randn(6, 8)
    mine, theirs = ([one.clone() for one in tensors] for _ in range(2))
    with torch.no_grad():
        run = torch.compile(function, backend="epifuse")
        for _ in range(2):
            torch.testing.assert_close(run(*mine), function(*theirs))
            torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune-no-cudagraphs"])
def test_modes_of_inductor(mode):
    model, inputs = load(1)
    with torch.no_grad():
        run = torch.compile(model, backend="epifuse", options={"mode": mode})
        for _ in range(3):
            torch.testing.assert_close(run(*inputs), model(*inputs), **TOLERANCES[torch.float32])
    assert epifuse.reports()[-1].producers == "inductor"


class Counted(CustomGraphPass):
    """A pass of the application's own."""

    def __init__(self, name):
        self.name, self.ran = name, 0

    def __call__(self, graph):
        self.ran += 1

    def uuid(self):
        return self.name


def test_the_applications_own_pass_runs_too():
    own = Counted("own")
    model, inputs = load(7)
    with config.patch(post_grad_custom_post_pass=own):
        _, code, _ = generated(model, *inputs)
        assert config.post_grad_custom_post_pass is own
    assert own.ran == 1 and "launch_over" in code


# ---- the cache


def test_the_name_of_the_pass_says_what_a_cached_graph_depends_on(monkeypatch):
    from epifuse import _core, _in_place

    def name(settings="", before=None):
        _in_place._sources.cache_clear()
        return _in_place.InPlace(settings, before).uuid()

    usual = name()
    assert usual == name() and usual != name("other") and usual != name(before=Counted("own"))
    assert name(before=Counted("own")) != name(before=Counted("another"))
    assert name(before=lambda graph: None) is None and name(before=Counted(None)) is None  # then nothing is cached
    monkeypatch.setattr(_core, "version", "another version")
    assert name() != usual
    monkeypatch.undo()
    assert name() == usual


CACHED = """
    import torch, epifuse
    from torch._dynamo.utils import counters

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv3d(3, 8, 3), torch.nn.GELU(), torch.nn.Flatten(2), torch.nn.Softmax(-1), torch.nn.Linear(64, 6)
    ).eval()
    with torch.no_grad():
        for options in ({}, {"tune": False}):
            torch._dynamo.reset()
            run = torch.compile(model, backend=epifuse.backend, options=options)
            for batch in (2, 5):
                x = torch.randn(batch, 3, 6, 6, 6)
                torch._dynamo.mark_dynamic(x, 0)
                kept = x.clone()
                torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
                assert torch.equal(x, kept)
    print(counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
    print([(report.producers, report.kernels) for report in epifuse.reports()])
"""


def test_another_process_takes_the_graphs_from_the_cache(tmp_path):
    """The same results, and the same reports. With other settings nothing is taken: the second graph is not the
    first."""
    script = tmp_path / "cached.py"
    script.write_text(textwrap.dedent(CACHED))
    folder = pathlib.Path(epifuse.__file__).parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
    }

    def run():
        ran = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        counts, reports = ran.stdout.splitlines()[-2:]
        return *map(int, counts.split()), eval(reports)

    hits, misses, reports = run()
    assert (hits, misses, len(reports)) == (0, 2, 2)
    assert all(producers == "inductor" and kernels for producers, kernels in reports)
    assert run() == (2, 0, reports)


# ---- the doors


ALLOWED = {
    "torch._dynamo.backends.common": {"aot_autograd"},
    "torch._dynamo.exc": {"RestartAnalysis"},
    "torch._functorch": {"config"},
    "torch._inductor": {"config", "list_mode_options"},
    "torch._inductor.compile_fx": {"compile_fx", "compile_fx_inner"},
    "torch._inductor.custom_graph_pass": {"CustomGraphPass", "get_hash_for_files"},
    "torch._inductor.decomposition": {"select_decomp_table"},
}


def test_the_package_takes_nothing_else_of_pytorchs_compiler():
    """What it takes is the same in every release that we support; more would be a promise that PyTorch does not make."""
    taken = set()
    for file in pathlib.Path(epifuse.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                taken |= {(node.module, alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                taken |= {(alias.name, None) for alias in node.names}
            elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch._"):
                taken.add((ast.unparse(node), None))
    taken = {(module, name) for module, name in taken if re.match(r"torch\._(inductor|dynamo|functorch)", module)}
    assert taken == {(module, name) for module, names in ALLOWED.items() for name in names}


@pytest.mark.parametrize(
    "version, fits", [("2.6.0+cu124", False), ("1.13.1", False), ("2.7.0", True), ("3.0.0a0+git", True)]
)
def test_a_pytorch_that_is_too_old_is_one_sentence(version, fits, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    if fits:
        compiled(lambda x: x.relu() + 1, torch.randn(3))
        return
    with pytest.raises(Exception, match=f"needs PyTorch 2.7 or newer, found {re.escape(version)}: install a newer one"):
        torch.compile(lambda x: x.relu() + 1, backend="epifuse")(torch.randn(3))
