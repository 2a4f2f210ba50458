"""Work in a child process: where judging something ends the process, that is a finding which says what was judged. Used
by the programs of op_db.py and programs.py; the tests themselves run in pytest's process."""

import mmap
import os
import pickle
import signal
import traceback

_NOTE = mmap.mmap(-1, 4096)


def note(text):
    """What is judged now, for the finding."""
    _NOTE.seek(0)
    _NOTE.write(text.encode()[:4000].ljust(4096, b"\0"))


def each(items, judge):
    """(item, judge(item), "") of each item, in order; (item, None, what happened) where the process died of it."""
    items, first = list(items), 0
    while first < len(items):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _judge_all(items[first:], judge, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as given:
            while first < len(items):
                try:
                    found = pickle.load(given)
                except EOFError:
                    break
                yield items[first], found, ""
                first += 1
        status = os.waitpid(child, 0)[1]
        if first < len(items):
            yield items[first], None, f"the process {_end(status)} at {_noted()}"
            first += 1


def _judge_all(items, judge, writing):
    code = 1
    try:
        with os.fdopen(writing, "wb") as out:
            for item in items:
                note(str(item))
                pickle.dump(judge(item), out)
                out.flush()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _end(status):
    if os.WIFSIGNALED(status):
        return f"died of {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with {os.waitstatus_to_exitcode(status)}"


def _noted():
    _NOTE.seek(0)
    return _NOTE.read(4096).rstrip(b"\0").decode(errors="replace")
