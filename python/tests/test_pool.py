"""graphs/pool.py: what becomes of units whose process dies, and of those that have no time."""

import os
import time

from graphs import pool


def work(unit, told):
    told(f"step {unit}")
    if unit == 3:
        os._exit(7)
    if unit < 0:
        time.sleep(-unit)
    return unit * 2


def test_a_process_that_dies_costs_its_unit():
    found = dict(pool.done(work, list(range(6)), jobs=2))
    ended = found.pop(3)
    assert found == {unit: unit * 2 for unit in (0, 1, 2, 4, 5)}
    assert isinstance(ended, pool.Ended) and str(ended) == "the process ended with 7 at step 3"


def test_units_without_time_are_not_done(monkeypatch):
    """What runs has the grace; what takes longer is ended."""
    monkeypatch.setattr(pool, "GRACE", 2)
    begun = time.monotonic()
    assert [unit for unit, _ in pool.done(work, [-1, -30, 5], jobs=2, seconds=0.01)] == [-1]
    assert time.monotonic() - begun < 20
