"""graphs/pool.py: what becomes of units whose process dies, and of those that have no time."""

import itertools
import os
import time
import types

from graphs import pool


def work(unit, told):
    told(f"step {unit}")
    if unit == 3:
        os._exit(7)
    if unit == 4:
        raise ValueError("four")
    if unit < 0:
        time.sleep(-unit)
    return unit * 2


def test_a_process_that_dies_costs_its_unit():
    found = dict(pool.done(work, list(range(6)), jobs=2))
    died, raised = found.pop(3), found.pop(4)
    assert found == {unit: unit * 2 for unit in (0, 1, 2, 5)}
    assert isinstance(died, pool.Ended) and str(died) == "the process ended with 7 at step 3"
    assert isinstance(raised, pool.Ended) and str(raised) == "ValueError: four"


def test_units_without_time_are_not_done(monkeypatch):
    """What runs has the grace; what takes longer is ended."""
    times, step = itertools.count(), 0
    monkeypatch.setattr(pool, "time", types.SimpleNamespace(monotonic=lambda: next(times) * step))
    found = []
    for unit, _ in pool.done(work, [1, -600, 5], jobs=2, seconds=10):
        found.append(unit)
        step = 25  # seconds that pass with each look at the clock
    assert found == [1]
