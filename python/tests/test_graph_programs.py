"""A share of the random programs of graphs/programs.py, and what becomes of long programs."""

import time

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import epifuse  # noqa: E402
from epifuse import _partition  # noqa: E402
from graphs import compare, programs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
AHEAD = 1_000_000  # seeds that the recorded run of 5 000 has not seen


def check(seeds, modes):
    with torch.no_grad():
        wanted = [seed for seed in seeds if programs.drawn(seed).mode in modes]
        counts, failures = programs.run(wanted, told=print, compile_every=4 if compare.has_nvrtc() else 0)
    assert not failures, "\n\n".join(f"{one['problem']}\n{one['program']}" for one in failures)
    assert counts["programs with kernels"] > 0.8 * counts["programs"]


@pytest.mark.parametrize("part", range(3))
def test_random_programs_give_what_eager_pytorch_gives(part):
    check(range(AHEAD + 100 * part, AHEAD + 100 * (part + 1)), {"aot", "dynamo", "dynamic"})


def test_random_programs_whose_groups_grow_unchecked(monkeypatch):
    """A large group grows by half before the planner is asked, and shrinks where it does not fit: here from two nodes
    on."""
    back = []
    go_back = _partition._Partitioner.go_back
    monkeypatch.setattr(_partition, "SMALL", 1)
    monkeypatch.setattr(
        _partition._Partitioner, "go_back", lambda self, mark: (back.append(mark), go_back(self, mark))[1]
    )
    check(range(AHEAD + 500, AHEAD + 580), {"aot"})
    assert back


def repeated(count):
    def function(x):
        t = x
        for _ in range(count):
            t = torch.softmax(t, -1) + x
        return t

    return function


def asked(monkeypatch, function, *inputs):
    """How many nodes the planner was asked about, the report, and the seconds."""
    nodes, check_group = [], _partition.check_group
    monkeypatch.setattr(_partition, "check_group", lambda given: (nodes.append(len(given)), check_group(given))[1])
    with torch.no_grad():
        begun = time.process_time()
        found = compare.compiled(lambda *given: (function(*given),))(*inputs)[0]
        took = time.process_time() - begun
        torch.testing.assert_close(found, function(*inputs), rtol=1e-5, atol=1e-5)  # of some hundred roundings
    return sum(nodes), epifuse.reports()[-1], took


def test_the_planner_is_asked_little_about_long_programs(monkeypatch):
    """200 times softmax(t) + x took 39 s when it was asked at every node: about 80 000 nodes in all."""
    nodes, report, _ = asked(monkeypatch, repeated(200), torch.randn(8, 64))
    assert [len(names) for names in report.fused] == [400]
    assert nodes < 24 * 25 / 2 + 3 * 400 + 400


def test_long_programs_of_several_kernels(monkeypatch):
    """Sums along one dimension, then along the other: where a kernel must end, the group goes back to what fits."""

    def function(x):
        for dim in (0, 1):
            for _ in range(40):
                x = torch.softmax(x, dim) + x
        return x

    torch.manual_seed(0)
    nodes, report, _ = asked(monkeypatch, function, torch.randn(8, 64))
    assert len(report.kernels) >= 2 and sum(map(len, report.fused)) == 160
    assert nodes < 160 * 160 / 2
