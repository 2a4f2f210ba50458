"""A function of PyTorch through the graph backend, without Dynamo, and whether what comes out is what eager PyTorch
gives. Used by op_db.py and programs.py of this folder."""

import contextlib
import functools

import torch
from torch._functorch.aot_autograd import aot_function

import epifuse
from epifuse import _torch_backend

# Of a result, by its type: the rounding of some operations in a row, of which a kernel spares most.
TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (2e-4, 2e-5),
    torch.float16: (1e-2, 2e-3),
    torch.bfloat16: (6e-2, 1.6e-2),
}


class Failed(AssertionError):
    """The compiled function gives something else than eager PyTorch, or ends in an error that eager PyTorch has not."""


def compiled(function, producers="eager"):
    """The function behind AOTAutograd and the backend's compiler: what torch.compile does without Dynamo."""
    compiler = functools.partial(_torch_backend._compile, _torch_backend.Settings(producers=producers))
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
    rtol, atol = TOLERANCES.get(want.dtype, (0, 0))
    if not (want.dtype.is_floating_point or want.dtype.is_complex):
        same = found == want
    else:
        if want.dtype.is_complex:
            rtol, atol = 1e-3, 1e-4
            found, want = torch.view_as_real(found.to(torch.complex128)), torch.view_as_real(want.to(torch.complex128))
        same = torch.isclose(found.double(), want.double(), rtol=rtol, atol=atol, equal_nan=True)
    if same.all():
        return ""
    where = tuple(torch.nonzero(~same)[0].tolist())
    return f"{found[where].item()!r} for {want[where].item()!r} at {list(where)} of {list(want.shape)}"


def _steps(tensor):
    """Strides that mean something."""
    if tensor.numel() == 0:
        return ()
    return tuple(stride for extent, stride in zip(tensor.shape, tensor.stride()) if extent > 1)


def aliases(results, inputs):
    """Which results share memory with which others and with inputs."""
    storages = [one.untyped_storage().data_ptr() for one in results + inputs if one.layout is torch.strided]
    return [storages.index(one) if one else -1 for one in storages]


@contextlib.contextmanager
def reports():
    """The reports of the graphs that are compiled inside."""
    epifuse.reports().clear()
    _torch_backend.REPORTS.clear()
    found = []
    yield found
    found += _torch_backend.REPORTS
