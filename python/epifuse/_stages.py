"""A chain as few kernels: one where the planner makes one, else one for some of its results, and where a result alone is none, one
up to a reduction and one behind it. Used by _autograd.py, for backward passes."""

import dataclasses
import functools

from . import _shapes
from ._core import Launcher
from ._tail import _target


@dataclasses.dataclass(frozen=True)
class Kernel:
    """`reads`: positions of values of the chain. `writes`: likewise, and ("result", i) for a result; `dtypes`: their types."""

    text: str
    reads: tuple
    writes: tuple
    dtypes: tuple


@dataclasses.dataclass(frozen=True)
class Stages:
    """The kernels of a chain in order, and the positions of its operands."""

    kernels: tuple
    operands: tuple


# ---- planning


def computed_in(launcher, specs, dtypes):
    """What a launch computes in for operands (type, shape) and results of these types, None where the operands decide."""
    own = launcher.result_types([dtype for dtype, _ in specs], [len(shape) for _, shape in specs])
    return launcher.compute_type(specs, [one or other for one, other in zip(dtypes, own)])


class _Planner:
    """`specs`: (type, shape) of the operands in order; `dtypes`: of the results."""

    def __init__(self, chain, specs, dtypes):
        launcher = self.launcher = Launcher(chain)
        self.values, self.results = launcher.values(), list(launcher.result_values)
        self.elementwise = launcher.is_elementwise  # every result has the shape of all operands
        place = {value["name"]: i for i, value in enumerate(self.values) if value["op"] == "input"}
        # An operand that nothing uses counts for broadcasting, and is no value.
        self.operands = tuple(place.get(name, -1 - i) for i, name in enumerate(launcher.inputs))
        shapes = [shape for _, shape in specs]
        self.shapes = dict(enumerate(_shapes.value_shapes(self.values, dict(zip(launcher.inputs, shapes)))))
        self.shapes.update(zip(self.operands, shapes))
        self.compute = computed_in(launcher, specs, dtypes)  # and what is stored between kernels
        self.dtypes = {i: "bool" if value["gives_truth"] else self.compute for i, value in enumerate(self.values)}
        self.dtypes.update(zip(self.operands, (dtype for dtype, _ in specs)))
        self.stored = dtypes
        self.known = set(self.operands)

    def whole(self, chain):
        """All results in one kernel, by the chain's own text."""
        names = tuple(("result", i) for i in range(len(self.results)))
        return Kernel(chain, self.operands, names, tuple(self.stored))

    def kernel(self, names, known):
        """A kernel of values, by position, and results, by name."""
        dtypes = tuple(self.stored[one[1]] if isinstance(one, tuple) else self.dtypes[one] for one in names)
        positions, before = [self.value(one) for one in names], [i for i in known if i >= 0]
        text, reads = self.launcher.subchain(positions, before, False)
        specs = [(self.dtypes[i], self.shapes[i]) for i in reads]
        if self.compute != computed_in(Launcher(text), specs, dtypes):  # what makes the whole one of f64 is elsewhere
            text, reads = self.launcher.subchain(positions, before, True)
        return Kernel(text, tuple(reads), tuple(names), dtypes)

    def refusal(self, kernel):
        """Why the planner makes no kernel of it, or None."""
        launcher = Launcher(kernel.text, [], list(kernel.dtypes), [])
        try:
            launcher.inspect([(self.dtypes[i], self.shapes[i], None) for i in kernel.reads], None, *_target(None))
        except ValueError as problem:
            return str(problem).removeprefix("the chain cannot be one kernel: ")
        operands = {name: self.shapes[i] for name, i in zip(launcher.inputs, kernel.reads)}
        facts = launcher.values(), launcher.result_values, launcher.is_elementwise
        made, wanted = _shapes.result_shapes(*facts, operands), [self.shapes[self.value(one)] for one in kernel.writes]
        return None if self.elementwise or made == wanted else "its results have shapes of their own"

    def value(self, name):
        """The position of what a kernel writes."""
        return self.results[name[1]] if isinstance(name, tuple) else name

    def cuts(self, name):
        """The values that reductions are taken of, and what they give, among those that `name` is computed from; the last first."""
        needed, open_ = set(), [self.value(name)]
        while open_:
            i = open_.pop()
            if i not in needed and i not in self.known:
                needed.add(i)
                open_ += self.values[i]["arguments"]
        reductions = [i for i in sorted(needed, reverse=True) if self.values[i]["op"] in _shapes.REDUCTIONS]
        found = [k for i in reductions for k in (self.values[i]["arguments"][0], i)]
        return [i for i in dict.fromkeys(found) if i in needed and i != name]

    def staged(self, name):
        """The kernels that give one value: one; or one up to a reduction and one behind it; else the first reduction is taken
        apart from the rest, and so on."""
        kernel = self.kernel([name], self.known)
        why = self.refusal(kernel)
        if why is None:
            return [kernel]
        cuts = self.cuts(name)
        if not cuts:
            raise ValueError(why)
        for cut in cuts:
            before, behind = self.kernel([cut], self.known), self.kernel([name], self.known | {cut})
            if self.refusal(before) is None and self.refusal(behind) is None:
                self.known.add(cut)
                return [before, behind]
        first = self.staged(min(cuts))
        self.known.add(min(cuts))
        return [*first, *self.staged(name)]

    def run(self, chain):
        """The kernels of all results, in order. Each result joins the first kernel of results that can hold it."""
        whole = self.whole(chain)
        if self.refusal(whole) is None:
            return (whole,)
        joint, cut = [], []
        for name in whole.writes:
            for at, kernel in enumerate(joint):
                joined = self.kernel([*kernel.writes, name], set(self.operands))
                if self.refusal(joined) is None:
                    joint[at] = joined
                    break
            else:
                kernels = self.staged(name)
                (joint if set(kernels[0].reads) <= set(self.operands) and len(kernels) == 1 else cut).extend(kernels)
        return (*joint, *cut)


@functools.lru_cache(4096)
def stages(chain, specs, dtypes):
    """The Stages of a chain for operands of these types and shapes. `dtypes`: of its results. ValueError with the planner's
    sentence where it makes no kernel of a result however it is cut."""
    planner = _Planner(chain, specs, dtypes)
    return Stages(planner.run(chain), planner.operands)
