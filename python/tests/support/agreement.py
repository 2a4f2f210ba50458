"""Whether @epifuse.fuse of a function does what the function does. An attempt has one of four outcomes, of which the
last must not be: right, untraceable, error (the library's own where it has one), wrong. Used by op_db.py and
numpy_functions.py."""

import collections
import math
import traceback
import warnings

import numpy as np

import epifuse

RIGHT, UNTRACEABLE, ERROR, WRONG = OUTCOMES = "right", "untraceable", "error", "wrong"
CLEAR = (ValueError, TypeError, RuntimeError, IndexError, OverflowError, ZeroDivisionError, NotImplementedError)

# Relative and absolute error by the coarser of the two results' types. A chain computes in f32 and rounds once; the
# library rounds after each operation.
TOLERANCE = {"f64": (1e-7, 1e-7), "f32": (3e-5, 3e-5), "f16": (4e-3, 4e-3), "bf16": (4e-2, 4e-2)}
COARSE = {"f8e4m3": (0.2, 0.1), "f8e5m2": (0.4, 0.1)} | TOLERANCE
ORDER = list(COARSE)  # coarsest first


class Report:
    """Counts, and the failures in words."""

    def __init__(self):
        self.counts = collections.Counter()
        self.names = collections.defaultdict(collections.Counter)
        self.why = collections.Counter()  # errors where the library has none
        self.failures = []

    def enter(self, name, outcome, text, case):
        self.counts[outcome] += 1
        self.names[name][outcome] += 1
        if outcome == ERROR and text:
            self.why[f"{name}: {text.splitlines()[0][:200]}"] += 1
        if outcome == WRONG:
            self.failures.append(f"{name}: {text}: {case()}")

    def as_dict(self):
        kinds = collections.Counter()
        for outcomes in self.names.values():
            kinds["some right" if outcomes[RIGHT] else "never traced" if not outcomes[WRONG] else "wrong"] += 1
        return {
            "attempts": sum(self.counts.values()),
            **{outcome: self.counts[outcome] for outcome in OUTCOMES},
            "functions": len(self.names),
            "functions with right results": sorted(name for name, one in self.names.items() if one[RIGHT]),
            "functions without": kinds["never traced"],
            "errors where the library has none": sum(self.why.values()),
            "failures": self.failures[:100],
        }


def attempt(function, reference, arrays, to_numpy, wide=None, misnamed=lambda sentence: ""):
    """(outcome, text): `reference()` is what eager execution gives, `wide()` the same of operands in a wider type, for
    what eager execution rounds, or vectorises, in its own way. `to_numpy`: (float64 array, our type's name or "other",
    whether it holds integers or truth values) of a result. `misnamed`: what an error's sentence names that nobody called; ""."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found, refused = epifuse.fuse(function)(*arrays), None
        except epifuse.Untraceable as untraceable:
            text = misnamed(str(untraceable))
            return (WRONG, text) if text else (UNTRACEABLE, "")
        except Exception as problem:
            found, refused = None, problem
        try:
            wanted, why = reference(), None
        except Exception as problem:
            wanted, why = None, problem
    if refused is not None:
        if not isinstance(refused, CLEAR) and type(refused) is not type(why):
            return WRONG, "an obscure error: " + "".join(traceback.format_exception(refused)[-3:])
        text = misnamed(str(refused)) if why is None else ""
        return (WRONG, text) if text else (ERROR, str(refused) if why is None else "")
    if why is not None:
        return WRONG, f"gives a value where there is an error: {why}"
    outcome, text = compare(found, wanted, to_numpy)
    if outcome == WRONG and wide is not None and not to_numpy(_first(wanted))[2]:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if compare(found, wide(), to_numpy)[0] == RIGHT:
                return RIGHT, ""
    return outcome, text


def _first(results):
    return results[0] if isinstance(results, (tuple, list)) else results


def compare(found, wanted, to_numpy):
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    wanted = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
    if len(found) > len(wanted):
        return WRONG, f"{len(found)} results of {len(wanted)}"
    for one, other in zip(found, wanted):
        text = _differ(to_numpy(one), to_numpy(other))
        if text:
            return WRONG, text
    return RIGHT, ""


def _differ(found, wanted):
    (a, kind_a, exact_a), (b, kind_b, exact_b) = found, wanted
    if a.shape != b.shape:
        return f"shape {a.shape}, expected {b.shape}"
    if kind_a != kind_b and kind_b not in ("f64", "other"):  # f64 where no operand is one: a chain computes in f32
        return f"type {kind_a}, expected {kind_b}"
    types = [kind for kind, exact in ((kind_a, exact_a), (kind_b, exact_b)) if not exact]
    if exact_b:  # integers and truth values, as the type of the result holds them
        b = rounded(b, kind_a)
        relative = absolute = 0
    else:
        relative, absolute = max((COARSE[kind] for kind in types), default=(0, 0))
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= absolute + relative * np.abs(b)
    largest = {"f16": 65504 * 0.99, "f8e4m3": 448 * 0.9, "f8e5m2": 57344 * 0.8}
    most = min(largest.get(kind, math.inf) for kind in (kind_a, kind_b))
    overflown = (np.abs(a) > most) & (np.abs(b) > most)  # in the narrower type
    same = near | (a == b) | (np.isnan(a) & np.isnan(b)) | overflown
    if same.all():
        return None
    worst = np.argwhere(~same)[0]
    where = tuple(int(one) for one in worst)
    wrong = f"{(~same).sum()} of {same.size} elements"
    return f"{wrong}, at {where} {a[where]!r}, expected {b[where]!r} ({kind_a}, {kind_b})"


def rounded(values, kind):
    if kind in ("f32", "f16"):
        return values.astype({"f32": np.float32, "f16": np.float16}[kind]).astype(np.float64)
    if kind == "bf16":
        import ml_dtypes

        return values.astype(ml_dtypes.bfloat16).astype(np.float64)
    return values
