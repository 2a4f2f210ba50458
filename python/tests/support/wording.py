"""Whether the sentence of an error names what was called: not what a function is made of, nor what nobody wrote. Used
by op_db.py and graphs/programs.py."""

import re

from torch.overrides import TorchFunctionMode

_QUOTED = re.compile(r"(?<![\w=])(?<!argument )(?<!operand )'([A-Za-z_][\w.]*)'")
_BEGIN = re.compile(r"^(?:torch\.|the method )(\w+)")
# Of Python itself: a method of PyTorch's tensors that was called with something else, as a function.
_PYTHONS = "descriptor '"
_ADVICE = re.compile(r"\(it has '[^']*'\)|\(it changes [^)]*\)|use '.*")
# Of the chain itself: its operands and results.
_OWN = re.compile(r"^(out|x|s|t|given|given_)\d*$")
# What Python's operators, and names of other libraries, are called in a chain.
_ALSO = {
    "truediv": "div",
    "floordiv": "div",
    "floor_divide": "div",
    "mod": "remainder",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "invert": "bitwise_not",
}
# Of one function several statistics, each of which an error may name.
_SEVERAL = {"var_mean": {"var", "mean"}, "std_mean": {"std", "mean"}, "aminmax": {"amin", "amax"}}


class Called(TorchFunctionMode):
    """Keeps the names of PyTorch's functions that are called while it is on."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        self.names.add(function.__self__.__name__ if name in ("__get__", "__set__") else name)
        return function(*args, **(kwargs or {}))


def called_by(run):
    """The names of what a function calls, as far as it comes."""
    with Called() as called:
        try:
            run()
        except Exception:
            pass
    return called.names


def _plain(name):
    plain = name.lower().rpartition(".")[2].strip("_")
    return _ALSO.get(plain, plain)


def misnamed(sentence, names):
    """What the first line of an error names that is none of these; "" if nothing."""
    line = _ADVICE.sub("", sentence.split("\n", 1)[0])
    if line.startswith(_PYTHONS):
        return ""
    known = {_plain(name) for name in names}
    known |= {_plain(name[1:]) for name in known if name[:1] in "ri"}  # __radd__, __iadd__
    known |= {name for one in known for name in _SEVERAL.get(one, ())}
    found = _QUOTED.findall(line) + _BEGIN.findall(line)
    wrong = [name for name in found if _plain(name) not in known and not _OWN.match(name)]
    return f"an error that names {', '.join(wrong)}, which was not called: {line[:300]}" if wrong else ""
