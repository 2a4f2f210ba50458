"""A function of PyTorch through the graph backend, without Dynamo, and whether what comes out is what eager PyTorch
gives. Used by op_db.py and programs.py of this folder."""

import contextlib
import functools
import itertools

import torch
from torch._functorch.aot_autograd import aot_function

import epifuse
from epifuse import _partition, _torch_backend
from epifuse._arrays import dtype_name
from epifuse._core import Launcher
from epifuse._shapes import hint

# Of a result, by its type: the rounding of some operations in a row, of which a kernel spares most.
TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (2e-4, 2e-5),
    torch.float16: (1e-2, 2e-3),
    torch.bfloat16: (6e-2, 1.6e-2),
}


class Failed(AssertionError):
    """The compiled function gives something else than eager PyTorch, or ends in an error that eager PyTorch has not."""


def compiled(function):
    """The function behind AOTAutograd and the backend's compiler: what torch.compile does without Dynamo and Inductor."""
    settings = _torch_backend.Settings(producers="eager")
    compiler = functools.partial(_torch_backend._compile_for_eager, settings, _torch_backend.ASKED_FOR)
    return aot_function(
        function, compiler, inference_compiler=compiler, decompositions=_torch_backend._DECOMPOSED, dynamic=False
    )


def tensors_of(value):
    """All tensors of nested tuples, lists and dictionaries, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [one for part in value for one in tensors_of(part)] if isinstance(value, (list, tuple)) else []


def spread(value):
    """What the tolerance is counted in besides the value itself."""
    finite = value[torch.isfinite(value)]
    return finite.abs().max().item() if finite.numel() else 0.0


def difference(found, want):
    """What distinguishes a tensor from the wanted one; "" if nothing does."""
    if (found.dtype, found.shape) != (want.dtype, want.shape):
        return f"{found.dtype} {list(found.shape)} for {want.dtype} {list(want.shape)}"
    if found.layout != want.layout:
        return f"{found.layout} for {want.layout}"
    if found.layout is torch.strided and _steps(found) != _steps(want):
        return f"strides {found.stride()} for {want.stride()}"
    if found.layout is not torch.strided or found.is_quantized:
        return ""
    if want.dtype.is_complex:
        found, want = torch.view_as_real(found.to(torch.complex128)), torch.view_as_real(want.to(torch.complex128))
        same = torch.isclose(found, want, rtol=1e-3, atol=1e-4, equal_nan=True)
    else:
        same = close(found, want)
    if same.all():
        return ""
    where = tuple(torch.nonzero(~same)[0].tolist())
    return f"{found[where].item()!r} for {want[where].item()!r} at {list(where)} of {list(want.shape)}"


def close(found, want):
    """Which elements of two tensors of one type, which is not complex, are the same within its tolerance."""
    if not want.dtype.is_floating_point:
        return found == want
    rtol, atol = TOLERANCES.get(want.dtype, (0, 0))
    return torch.isclose(found.double(), want.double(), rtol=rtol, atol=atol, equal_nan=True)


def all_nearer(found, want, exact):
    """Whether every element of `found` that differs from `want` lies nearer to `exact`, of float64. All are lists of
    tensors of the same shapes."""
    for ours, theirs, true in zip(found, want, exact, strict=True):
        if (ours.shape, ours.dtype, _steps(ours)) != (theirs.shape, theirs.dtype, _steps(theirs)):
            return False
        if theirs.dtype in TOLERANCES and true.dtype is torch.float64 and true.shape == theirs.shape:
            errors = (ours.double() - true).abs(), (theirs.double() - true).abs()
            if not (close(ours, theirs) | (errors[0] < errors[1])).all():
                return False
        elif difference(ours, theirs):
            return False
    return True


def _steps(tensor):
    """Strides that mean something."""
    if tensor.numel() == 0:
        return ()
    return tuple(stride for extent, stride in zip(tensor.shape, tensor.stride()) if extent > 1)


def lies_over_itself(tensor):
    """Whether several elements are one of memory, as of an expansion."""
    return any(stride == 0 and extent > 1 for stride, extent in zip(tensor.stride(), tensor.shape))


def aliases(results, inputs):
    """Which results share memory with which others and with inputs."""
    storages = [one.untyped_storage().data_ptr() for one in results + inputs if one.layout is torch.strided]
    return [storages.index(one) if one else -1 for one in storages]


@contextlib.contextmanager
def filled():
    """New memory of PyTorch's holds NaN, or the largest integer, until it is written: results that are not are seen."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


_COMPILED = {}  # what NVRTC said, by source: "" where it took it


@contextlib.contextmanager
def chains():
    """The chains of the kernels that are made inside, as _partition.py writes them."""
    made, found = _torch_backend._eager_node, []

    def kept(graph, chain, operands, index):
        found.append(chain)
        return made(graph, chain, operands, index)

    _torch_backend._eager_node = kept
    try:
        yield found
    finally:
        _torch_backend._eager_node = made


def compiled_sources():
    return _COMPILED


def has_nvrtc():
    return epifuse.doctor()["nvrtc"] is not None


@functools.cache
def architectures():
    """Kernels are compiled for one of these each. PyTorch 2.7 brings NVRTC 12.6, which does not know sm_100."""
    known = epifuse.doctor()["nvrtc_architectures"]
    return [each for each in (90, 80, 100) if each in known]


def uncompiled(written):
    """What NVRTC says of the first of these chains whose kernel it does not take; "". No GPU is needed."""
    for one in written:
        tensors = [_partition.tensor_of(node) for node in one.operands]
        specs = [
            (dtype_name(tensor.dtype), list(map(hint, tensor.shape)), list(map(hint, tensor.stride())))
            for tensor in tensors
            if tensor is not None
        ]
        architecture = architectures()[len(_COMPILED) % len(architectures())]
        inspection = Launcher(one.text, [], one.dtypes, one.orders).inspect(specs, None, architecture, 132)
        if inspection.source not in _COMPILED:
            _COMPILED[inspection.source] = _refusal(inspection, architecture)
        if _COMPILED[inspection.source]:
            return f"a kernel does not compile: {_COMPILED[inspection.source]}: {one.text}"
    return ""


def _refusal(inspection, architecture):
    try:
        inspection.ptx(architecture)
        return ""
    except epifuse.Error as problem:
        lines = str(problem).splitlines()
        return next((line for line in lines if "error:" in line), lines[0])


@contextlib.contextmanager
def reports():
    """The reports of the graphs that are compiled inside."""
    epifuse.reports().clear()
    _torch_backend.REPORTS.clear()
    found = []
    yield found
    found += _torch_backend.REPORTS


# ---- what else is right: PyTorch's own trace, and programs that round differently


def traced(function):
    """AOTAutograd with a compiler that does nothing."""
    return _behind_aot(function, lambda module: module.forward)


def _behind_aot(function, runner_of):
    def compiler(module, inputs):
        runner = runner_of(module)

        def run(arguments):
            values = list(arguments)
            arguments.clear()
            return runner(*values)

        run._boxed_call = True
        return run

    return aot_function(
        function, compiler, inference_compiler=compiler, decompositions=_torch_backend._DECOMPOSED, dynamic=False
    )


class _OneByOne(torch.fx.Interpreter):
    """Runs the operations that give each element by itself on one element at a time: PyTorch's vectorised kernels give
    something else than its own for single elements, at times."""

    def run_node(self, node):
        wanted = node.meta.get("val")
        if (
            node.op != "call_function"
            or torch.Tag.pointwise not in getattr(node.target, "tags", ())
            or not isinstance(wanted, torch.Tensor)
        ):
            return super().run_node(node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)

        def element(one, place):
            return one.expand(wanted.shape)[place].clone() if isinstance(one, torch.Tensor) and one.dim() else one

        made = torch.empty_strided(wanted.shape, wanted.stride(), dtype=wanted.dtype)
        for place in itertools.product(*map(range, wanted.shape)):
            made[place] = node.target(*torch.fx.node.map_aggregate(args, lambda one: element(one, place)), **kwargs)
        return made


def one_by_one(function):
    return _behind_aot(function, lambda module: _OneByOne(module).run)


_NOISE = {torch.float64: 2**-50, torch.float32: 2**-21, torch.float16: 2**-10, torch.bfloat16: 2**-7}
_EXACT = {
    getattr(torch.ops.aten, name)
    for name in "where masked_fill abs neg relu maximum minimum clamp clamp_min clamp_max amax amin max min sign".split()
}


class _Noise(torch.fx.Interpreter):
    """Runs a graph with an error of a rounding or two behind each operation that rounds."""

    def __init__(self, module, seed):
        super().__init__(module)
        self.source = torch.Generator().manual_seed(seed)

    def run_node(self, node):
        made = super().run_node(node)
        if getattr(node.target, "overloadpacket", None) in _EXACT or not _partition_has(node):
            return made
        return torch.utils._pytree.tree_map(self.noisy, made)

    def noisy(self, one):
        if not isinstance(one, torch.Tensor) or one.dtype not in _NOISE:
            return one
        error = (torch.rand(one.shape, generator=self.source, dtype=torch.float64) * 2 - 1) * _NOISE[one.dtype]
        return (one.double() * (1 + error)).to(one.dtype)


class _Unrounded(torch.fx.Interpreter):
    """Runs a graph without rounding to 16 bits between operations that a chain has: no overflow of f16, either."""

    def run_node(self, node):
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        ours = node.op == "call_function" and _partition_has(node)
        wanted = node.meta.get("val")
        if not ours or not isinstance(wanted, torch.Tensor) or wanted.dtype not in (torch.float16, torch.bfloat16):
            inputs = iter(node.all_input_nodes)
            back = {id(self.env[one]): one.meta["val"] for one in inputs if isinstance(self.env[one], torch.Tensor)}
            narrow = lambda one: one.to(back[id(one)].dtype) if id(one) in back else one  # noqa: E731
            args, kwargs = torch.utils._pytree.tree_map(narrow, (args, kwargs))
            return getattr(self, node.op)(node.target, args, kwargs)
        wide = lambda one: one.float() if isinstance(one, torch.Tensor) and one.dtype == wanted.dtype else one  # noqa: E731
        args, kwargs = torch.utils._pytree.tree_map(wide, (args, kwargs))
        return getattr(self, node.op)(node.target, args, kwargs)


def _partition_has(node):
    return _partition.row_of(node) is not None


def noisy(function, seed):
    """The function with noise; without rounding to 16 bits for a seed below 0."""
    return _behind_aot(function, lambda module: (_Unrounded(module) if seed < 0 else _Noise(module, seed)).run)


def beyond(found, near):
    """Whether a value lies outside of what programs with other roundings give. All are pairs of results and
    arguments."""
    for kind in (0, 1):
        for number, value in enumerate(found[kind]):
            others = [one[kind][number] for one in near]
            if any((one.shape, one.dtype) != (value.shape, value.dtype) for one in others):
                return True
            if _is_beyond(value, torch.stack([one.double() for one in others])):
                return True
    return False


def _is_beyond(value, others):
    if value.dtype.is_complex:
        return False
    rtol, atol = TOLERANCES.get(value.dtype, (0, 0))
    odd = ~torch.isfinite(others)
    low, high = others.nan_to_num(torch.inf).amin(0), others.nan_to_num(-torch.inf).amax(0)
    slack = 2 * (high - low) + atol + rtol * torch.maximum(low.abs(), high.abs())
    value = value.double()
    inside = (value >= low - slack) & (value <= high + slack)
    same = torch.isclose(value.expand_as(others), others, rtol=rtol, atol=atol, equal_nan=True).any(0)
    unsure = odd.any(0) & ~odd.all(0)  # some programs overflow
    return not bool((inside | same | unsure).all())
