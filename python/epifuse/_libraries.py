"""What PyTorch and NumPy say of an operation's result: they run it on stand-ins without elements (PyTorch) or with few
(NumPy), and so give its type, its shape, and their own error where it is none. Used by _proxy.py."""

from __future__ import annotations

import contextlib
import functools
import operator
import sys

from . import _rows_numpy, _rows_torch
from . import _rows_torch_products as __  # enters its rows
from . import _rows_torch_indices, _rows_torch_shapes  # noqa: F401  they enter their rows, and those of _rows_torch_views.py
from ._arrays import NAMES, dtype_name, numpy_dtype
from ._exact import LIMITS
from ._ops import Unsupported

# The operators of Python: what a tensor's is called in the tables.
OPERATORS = {
    "add": ("Tensor.add", "numpy.add"),
    "sub": ("Tensor.sub", "numpy.subtract"),
    "mul": ("Tensor.mul", "numpy.multiply"),
    "truediv": ("Tensor.div", "numpy.divide"),
    "floordiv": ("Tensor.floor_divide", "numpy.floor_divide"),
    "mod": ("Tensor.remainder", "numpy.remainder"),
    "matmul": ("Tensor.matmul", "numpy.matmul"),
    "pow": ("Tensor.pow", "numpy.power"),
    "and_": ("Tensor.bitwise_and", "numpy.bitwise_and"),
    "or_": ("Tensor.bitwise_or", "numpy.bitwise_or"),
    "xor": ("Tensor.bitwise_xor", "numpy.bitwise_xor"),
    "eq": ("Tensor.eq", "numpy.equal"),
    "ne": ("Tensor.ne", "numpy.not_equal"),
    "lt": ("Tensor.lt", "numpy.less"),
    "le": ("Tensor.le", "numpy.less_equal"),
    "gt": ("Tensor.gt", "numpy.greater"),
    "ge": ("Tensor.ge", "numpy.greater_equal"),
    "neg": ("Tensor.neg", "numpy.negative"),
    "abs": ("Tensor.abs", "numpy.abs"),
    "invert": ("Tensor.bitwise_not", "numpy.invert"),
    "pos": ("Tensor.positive", "numpy.positive"),
}
_FP8 = ("f8e4m3", "f8e5m2", "f8e8m0")  # in which neither library computes: their arithmetic is f32's


class Torch:
    name, table = "torch", _rows_torch.TABLE

    @staticmethod
    @functools.lru_cache(1)
    def functions():
        import torch

        return _rows_torch.TABLE.by_function(
            {
                "torch": torch,
                "F": torch.nn.functional,
                "special": torch.special,
                "linalg": torch.linalg,
                "Tensor": torch.Tensor,
            }
        )

    @staticmethod
    def stand_in(value, shape):
        import torch

        name = NAMES["f32" if value.dtype in _FP8 else value.dtype]
        return Torch.run(torch.empty, (shape,), {"dtype": getattr(torch, name), "device": "meta"})

    @staticmethod
    def check(name, function, args, kwargs):
        """PyTorch refuses some operations of integers and truth values where they run only, and not of stand-ins: they
        run, too, on a few elements."""
        import torch

        if name.rpartition(".")[2] in _OF_EXTENTS:
            return

        def real(value):
            if not isinstance(value, torch.Tensor):
                return value
            return Torch.run(torch.ones, ([min(one, 3) for one in value.shape],), {"dtype": value.dtype})

        Torch.run(function, [real(one) for one in args], {key: real(one) for key, one in kwargs.items()})

    @staticmethod
    def is_own(value):
        import torch

        return isinstance(value, torch.Tensor)

    @staticmethod
    def run(function, args, kwargs):
        import torch
        from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode

        # A tracer shall not see it.
        hidden = contextlib.nullcontext() if _get_current_dispatch_mode() is None else _disable_current_modes()
        with torch._C.DisableTorchFunctionSubclass(), hidden, torch.no_grad():
            try:
                return function(*args, **kwargs)
            except AssertionError as problem:  # functions of stand-ins assert what those of tensors raise
                raise RuntimeError(str(problem)) from None

    @staticmethod
    def limits(like):
        import torch

        if like.dtype is torch.bool:
            return LIMITS["bool"]
        return (torch.iinfo(like.dtype).min, torch.iinfo(like.dtype).max)

    @staticmethod
    def kind(like):
        if like.dtype.is_complex or like.is_quantized:
            raise Unsupported(f"a result of the type {like.dtype}")
        return "float" if like.dtype.is_floating_point else "bool" if str(like.dtype) == "torch.bool" else "int"

    @staticmethod
    def shape(like):
        return tuple(like.shape)

    @staticmethod
    def operator_row(name):
        return _rows_torch.TABLE.find(OPERATORS[name][0])

    @staticmethod
    def method_row(name):
        return _rows_torch.TABLE.find("Tensor." + name)

    @staticmethod
    def has_method(name):
        import torch

        return hasattr(torch.Tensor, name)


# What needs the true extents, and takes every type.
_OF_EXTENTS = set(
    "unflatten flatten __getitem__ narrow unfold select chunk split unbind squeeze expand reshape view permute flip transpose "
    "matmul mm bmm addmm linear conv2d cat concat concatenate stack glu pad roll pixel_shuffle pixel_unshuffle interpolate "
    "index_select index_copy gather embedding one_hot []".split()
) | {f"{name}_pool{n}d" for name in ("max", "avg", "lp", "adaptive_avg", "adaptive_max") for n in (1, 2, 3)}


class NumPy:
    name, table = "numpy", _rows_numpy.TABLE

    @staticmethod
    @functools.lru_cache(1)
    def functions():
        import numpy

        return _rows_numpy.TABLE.by_function({"numpy": numpy, "numpy.linalg": numpy.linalg})

    @staticmethod
    def stand_in(value, shape):
        import numpy

        dtype = numpy_dtype("f32" if value.dtype in _FP8 else value.dtype)
        return numpy.ones([min(extent, 3) for extent in shape], dtype)

    @staticmethod
    def check(name, function, args, kwargs):
        """Its stand-ins have elements."""

    @staticmethod
    def is_own(value):
        import numpy

        return isinstance(value, (numpy.ndarray, numpy.generic))

    @staticmethod
    def run(function, args, kwargs):
        import numpy

        with numpy.errstate(all="ignore"):
            return function(*args, **kwargs)

    @staticmethod
    def limits(like):
        import numpy

        return LIMITS["bool"] if like.dtype == bool else (numpy.iinfo(like.dtype).min, numpy.iinfo(like.dtype).max)

    @staticmethod
    def kind(like):
        import numpy

        if like.dtype == bool:
            return "bool"
        if numpy.issubdtype(like.dtype, numpy.integer):
            return "int"
        if numpy.issubdtype(like.dtype, numpy.floating) or like.dtype.name in NAMES.values():
            return "float"
        raise Unsupported(f"a result of the type {like.dtype}")

    @staticmethod
    def shape(like):
        return None  # stand-ins are smaller

    @staticmethod
    def operator_row(name):
        return _rows_numpy.TABLE.find(OPERATORS[name][1])

    @staticmethod
    def method_row(name):
        return _rows_numpy.TABLE.find("ndarray." + name)

    @staticmethod
    def has_method(name):
        import numpy

        return hasattr(numpy.ndarray, name)


def library_of(array):
    """Whose meanings an array has. CuPy's, JAX's and everybody else's are NumPy's."""
    return Torch if "torch" in sys.modules and Torch.is_own(array) else NumPy


def our_name(dtype):
    """Our name of a library's type; None for types that we do not have."""
    try:
        return dtype_name(dtype)
    except ValueError:
        return None


def python_operator(name):
    return getattr(operator, name)
