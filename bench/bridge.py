"""EpiFuse for the benchmarks' Python: chains launched on PyTorch's tensors through libepifuse_bench.so (bridge.cpp,
cublaslt.cpp).

    tail = bridge.Tail("softmax(x, axis=-1)")
    tail([y], {"x": x})          # on PyTorch's current stream; capturable in a CUDA graph

A tensor may also be a View, so that plans can be looked at without PyTorch and without a GPU.
"""
import ctypes
import dataclasses
import functools
import json
import os
import pathlib
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACES = ("build/bench/libepifuse_bench.so", ".gpu/libepifuse_bench.so")
MAX_RANK = 8


class Error(RuntimeError):
    """An epifuse::Error, with its sentence."""


@dataclasses.dataclass
class View:
    """A tensor: its address (0: none, for plans), the name of its type in EpiFuse, shape, strides in elements."""
    pointer: int
    dtype: str
    shape: tuple
    strides: tuple


class BridgeTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * MAX_RANK), ("strides", ctypes.c_int64 * MAX_RANK)]


def open_library():
    given = os.environ.get("EPIFUSE_BENCH_LIB")
    candidates = [pathlib.Path(given)] if given else [ROOT / place for place in PLACES]
    for path in candidates:
        if path.exists():
            break
    else:
        raise SystemExit(f"bridge.py: no {' or '.join(map(str, candidates))}; build the target epifuse_bench_bridge, "
                         "or set EPIFUSE_BENCH_LIB")
    # Symbols stay local, so that nothing of PyTorch's libraries is bound instead.
    library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    pointer, text, integer = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
    tensors = ctypes.POINTER(BridgeTensor)
    declared = {
        "error": (text, []),
        "dtype": (integer, [text]),
        "system": (text, []),
        "engine": (pointer, [integer]),
        "free_engine": (None, [pointer]),
        "stats": (text, [pointer]),
        "tail": (pointer, [text]),
        "free_tail": (None, [pointer]),
        "names": (text, [pointer]),
        "result_shapes": (text, [pointer, tensors, integer]),
        "launch": (integer, [pointer, pointer, pointer, tensors, integer, tensors, integer,
                             ctypes.POINTER(ctypes.c_double), integer]),
        "plan": (text, [pointer, tensors, integer, tensors, integer, integer, ctypes.c_double]),
        "cubin": (integer, [pointer, tensors, integer, tensors, integer, integer, text]),
        "product": (pointer, [tensors, pointer, ctypes.c_int64, integer]),
        "free_product": (None, [pointer]),
        "product_kernels": (integer, [pointer]),
        "multiply": (integer, [pointer, integer, tensors, pointer, pointer, pointer]),
    }
    for name, (result, arguments) in declared.items():
        function = getattr(library, "epifuse_bench_" + name)
        function.restype, function.argtypes = result, arguments
    return library


_library = None


def call(name, *arguments):
    global _library
    if _library is None:
        _library = open_library()
    return getattr(_library, "epifuse_bench_" + name)(*arguments)


def fail():
    raise Error(call("error").decode())


def text(name, *arguments):
    """What a function that returns JSON says."""
    answer = call(name, *arguments)
    if answer is None:
        fail()
    return json.loads(answer.decode())


def view(tensor):
    """A torch.Tensor as a View."""
    if isinstance(tensor, View):
        return tensor
    return View(tensor.data_ptr(), dtype_name(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()))


DTYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3",
          "float8_e5m2": "f8e5m2", "int8": "i8", "uint8": "u8", "int32": "i32", "int64": "i64", "bool": "bool"}


def dtype_name(dtype):
    return DTYPES[str(dtype).removeprefix("torch.")]


@functools.cache
def dtype_code(name):
    return call("dtype", name.encode())


def pack(tensors):
    views = [view(tensor) for tensor in tensors]
    packed = (BridgeTensor * max(len(views), 1))()
    for slot, item in zip(packed, views):
        code = dtype_code(item.dtype)
        if code < 0 or len(item.shape) > MAX_RANK or len(item.shape) != len(item.strides):
            raise ValueError(f"{item} is no tensor for EpiFuse")
        slot.data, slot.dtype, slot.rank = item.pointer or None, code, len(item.shape)
        slot.shape[:len(item.shape)] = item.shape
        slot.strides[:len(item.strides)] = item.strides
    return packed, len(views)


def system():
    return text("system")


class Engine:
    """One device: a GPU by its index, -1 for the CPU."""

    def __init__(self, device=0):
        self.handle = None
        self.device = device
        self.handle = call("engine", device)
        if not self.handle:
            fail()

    def __del__(self):
        if self.handle:
            call("free_engine", self.handle)

    def stats(self):
        return text("stats", self.handle)


_engines = {}


def engine(device):
    """The one engine of a device."""
    if device not in _engines:
        _engines[device] = Engine(device)
    return _engines[device]


def close():
    """Ends the engines, while the device still is there."""
    _engines.clear()


class Tail:
    """A chain in the text language. Calling it launches it."""

    def __init__(self, chain):
        self.handle = None
        self.chain = chain
        self.handle = call("tail", chain.encode())
        if not self.handle:
            fail()
        names = text("names", self.handle)
        self.inputs, self.scalars, self.results = names["inputs"], names["scalars"], names["results"]

    def __del__(self):
        if self.handle:
            call("free_tail", self.handle)

    def ordered(self, inputs):
        """Inputs by name in the chain's order; a list is taken as it is."""
        if not isinstance(inputs, dict):
            return list(inputs)
        if set(inputs) != set(self.inputs):
            raise ValueError(f"'{self.chain}' takes {self.inputs}, found {list(inputs)}")
        return [inputs[name] for name in self.inputs]

    def result_shapes(self, inputs):
        packed, count = pack(self.ordered(inputs))
        return [tuple(shape) for shape in text("result_shapes", self.handle, packed, count)]

    def plan(self, outputs, inputs, architecture=0, bandwidth=0.0):
        """The plan as data, its text, and, for an architecture such as 90, what the compiled kernel takes."""
        outs, out_count = pack(outputs)
        ins, in_count = pack(self.ordered(inputs))
        return text("plan", self.handle, outs, out_count, ins, in_count, architecture, bandwidth)

    def cubin(self, outputs, inputs, architecture):
        """The compiled kernel's bytes."""
        outs, out_count = pack(outputs)
        ins, in_count = pack(self.ordered(inputs))
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            if call("cubin", self.handle, outs, out_count, ins, in_count, architecture, file.name.encode()) != 0:
                fail()
            return file.read()

    def __call__(self, outputs, inputs, scalars=(), device=None, stream=None):
        """Launches on PyTorch's current stream of the tensors' device; callers without PyTorch name both."""
        if device is None:
            import torch
            device = outputs[0].device.index
            stream = torch.cuda.current_stream(device).cuda_stream
        outs, out_count = pack(outputs)
        ins, in_count = pack(self.ordered(inputs))
        values = (ctypes.c_double * max(len(scalars), 1))(*scalars)
        code = call("launch", engine(device).handle, self.handle, stream or None, outs, out_count, ins, in_count,
                    values, len(scalars))
        if code != 0:
            fail()


class Product:
    """left @ right^T by cuBLASLt, with any of the kernels that it proposes for it; the first is its own choice. `scale` is a tensor of one f32 number,
    for 8-bit floats."""

    WORKSPACE_BYTES = 32 << 20  # what NVIDIA recommends for Hopper

    def __init__(self, left, right, result, scale=None, most=16):
        self.handle = None
        matrices, _ = pack([left, right, result])
        self.handle = call("product", matrices, address(scale), self.WORKSPACE_BYTES, most)
        if not self.handle:
            fail()
        self.kernels = call("product_kernels", self.handle)

    def __del__(self):
        if self.handle:
            call("free_product", self.handle)

    def __call__(self, kernel, left, right, result, workspace, scale=None):
        """Queues it on PyTorch's current stream, with the kernel of that number."""
        import torch
        matrices, _ = pack([left, right, result])
        stream = torch.cuda.current_stream(result.device).cuda_stream
        if call("multiply", self.handle, kernel, matrices, address(scale), address(workspace), stream or None) != 0:
            fail()


def address(tensor):
    return None if tensor is None else tensor.data_ptr()
