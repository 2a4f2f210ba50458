"""Units of work shared among processes. A process that dies costs the unit that it had, not the run. Used by op_db.py
of this folder."""

import multiprocessing
import time
from multiprocessing import connection

GRACE = 60  # seconds that units in progress have when the time is up


class Ended(Exception):
    """The unit ended in an error, or its process did."""


def _serve(pipe, work):
    """A process of the pool: takes units until there are no more. Reports where it is and what comes out."""
    while (unit := pipe.recv()) is not None:
        pipe.send((False, ""))
        try:
            result = work(unit, lambda where: pipe.send((False, where)))
        except Exception as problem:
            result = Ended(f"{type(problem).__name__}: {problem}")
        pipe.send((True, result))


class _Process:
    def __init__(self, context, work):
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self.process.start()
        theirs.close()
        self.unit, self.where = None, ""

    def give(self, unit):
        self.unit, self.where = unit, ""
        self.pipe.send(unit)

    def end(self):
        self.process.terminate()
        self.process.join()


def done(work, units, jobs, seconds=None):
    """Yields (unit, result) as units are done, and (unit, Ended) where one failed. `work(unit, told)` is a function
    of a module; told(where) says what it is at. After `seconds` no unit starts; what is not yielded was not done."""
    context = multiprocessing.get_context("spawn")  # a copy of PyTorch's threads would hang
    waiting, begun = list(reversed(units)), time.monotonic()
    processes = [_Process(context, work) for _ in range(min(jobs, len(waiting)))]
    try:
        while waiting or any(one.unit is not None for one in processes):
            late = 0 if seconds is None else time.monotonic() - begun - seconds
            if late > 0:
                waiting.clear()
            if late > GRACE:
                return
            for one in processes:
                if one.unit is None and waiting:
                    one.give(waiting.pop())
            yield from _answers(processes, lambda: _Process(context, work))
    finally:
        for one in processes:
            one.end()


def _answers(processes, another):
    """What the processes say within a second. One that died is replaced."""
    busy = {one.pipe: place for place, one in enumerate(processes) if one.unit is not None}
    for pipe in connection.wait(list(busy), timeout=1):
        one = processes[busy[pipe]]
        try:
            is_done, what = pipe.recv()
        except (EOFError, ConnectionResetError):
            one.process.join()
            processes[busy[pipe]] = another()
            yield one.unit, Ended(f"the process ended with {one.process.exitcode} at {one.where or 'its start'}")
            continue
        if is_done:
            unit, one.unit = one.unit, None
            yield unit, what
        else:
            one.where = what
