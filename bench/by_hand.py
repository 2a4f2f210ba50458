"""The kernel that one writes by hand first: one element per thread, integer divisions for the coordinates. Emitted here, compiled with
the NVRTC that EpiFuse found and with CUDA's own headers for the narrow types; launched through the driver API. For bench/pointwise.py."""
import ctypes
import dataclasses
import functools
import glob
import os
import pathlib
import re

import bridge
import chains
import views

THREADS = 256
LARGEST_INT = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Argument:
    """An operand or the result: its strides are those of the kernel's dimensions."""
    name: str
    dtype: str
    strides: tuple


@dataclasses.dataclass(frozen=True)
class Kernel:
    source: str
    integer: type  # of ctypes, for every number among the parameters
    numbers: tuple  # parameters behind the pointers: elements, extents, strides that are no 0 or 1


def position(argument, extents, numbers):
    """The index of the thread's element in one operand, as an expression; strides become parameters."""
    if argument.strides == views.dense(extents):
        return "i"
    terms = []
    for d, stride in enumerate(argument.strides):
        if stride == 1:
            terms.append(f"c{d}")
        elif stride != 0:
            numbers.append((f"{argument.name}_stride{d}", stride))
            terms.append(f"c{d} * {numbers[-1][0]}")
    return " + ".join(terms) or "0"


def coordinates(extents, used):
    """c0 = i / (n1 * n2), c1 = i / n2 % n1, c2 = i % n2; those that an operand needs."""
    lines = []
    for d in sorted(used):
        inner = " * ".join(f"n{k}" for k in range(d + 1, len(extents)))
        value = f"i / ({inner})" if inner else "i"
        lines.append(f"  const Integer c{d} = {value}{f' % n{d}' if d > 0 else ''};")
    return lines


def kernel(text, operands, result):
    """`operands` and `result`: (name, dtype, shape, strides); the result's shape is the chain's."""
    name, dtype, shape, strides = result
    of_all = [strides] + [views.broadcast_strides(theirs, steps, shape) for _, _, theirs, steps in operands]
    extents, rows = views.merged(shape, of_all)
    if not extents:
        extents, rows = [1], [[1]] + [[0]] * len(operands)
    arguments = [Argument(n, t, tuple(row)) for (n, t, _, _), row in zip([result, *operands], rows)]
    out, ins = arguments[0], arguments[1:]
    elements = functools.reduce(lambda a, b: a * b, extents)
    numbers = [("elements", elements)] + [(f"n{d}", n) for d, n in enumerate(extents)]
    where = {argument.name: position(argument, extents, numbers) for argument in arguments}
    furthest = max(sum((n - 1) * s for n, s in zip(extents, argument.strides)) for argument in arguments)
    wide = max(elements + THREADS, furthest) > LARGEST_INT
    used = {int(d) for place in where.values() for d in re.findall(r"\bc(\d+)", place)}
    pointers = [f"const {chains.CUDA_TYPES[a.dtype]}* __restrict__ {a.name}" for a in ins]
    pointers.append(f"{chains.CUDA_TYPES[dtype]}* __restrict__ {name}")
    values = ", ".join(chains.widened(f"{a.name}[{where[a.name]}]", a.dtype) for a in ins)
    types = {argument.dtype for argument in arguments}
    lines = [header for header, theirs in zip(chains.HEADERS.splitlines(), ("f16", "bf16", "f8e4m3")) if theirs in types]
    lines += [f"using Integer = {'long long' if wide else 'int'};", chains.cuda_function(text, [a.name for a in ins]),
              f"extern \"C\" __global__ void by_hand_kernel({', '.join(pointers)}, "
              + ", ".join(f"Integer {number}" for number, _ in numbers) + ") {",
              "  const Integer i = static_cast<Integer>(blockIdx.x) * blockDim.x + threadIdx.x;",
              "  if (i >= elements) return;", *coordinates(extents, used),
              f"  {name}[{where[name]}] = {chains.narrowed(f'by_hand::chain({values})', out.dtype)};", "}", ""]
    return Kernel("\n".join(lines), ctypes.c_int64 if wide else ctypes.c_int32, tuple(value for _, value in numbers))


# ---- NVRTC


class Error(RuntimeError):
    pass


def nvrtc_path():
    found = re.match(r".*\((.*)\)", bridge.system()["nvrtc"] or "")
    if not found:
        raise Error("by_hand.py: EpiFuse finds no NVRTC here; set EPIFUSE_NVRTC to the path of a libnvrtc.so")
    return found[1]


@functools.cache
def nvrtc():
    return ctypes.CDLL(nvrtc_path())


@functools.cache
def headers():
    """The folder of cuda_fp16.h: of a toolkit, or of the wheel that NVRTC lies in."""
    beside = pathlib.Path(nvrtc_path()).resolve().parent.parent
    folders = [os.environ.get("CUDA_HOME", "/nowhere") + "/include", f"{beside}/include", "/usr/local/cuda/include",
               *sorted(glob.glob("/usr/local/cuda-*/include")), *sorted(glob.glob(f"{beside.parent}/*/include"))]
    for folder in folders:
        if os.path.exists(f"{folder}/cuda_fp8.h"):
            return folder
    raise Error(f"by_hand.py: no cuda_fp8.h in {', '.join(folders)}; set CUDA_HOME to a CUDA toolkit")


@functools.cache
def cubin(source, architecture):
    program, library = ctypes.c_void_p(), nvrtc()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"by_hand.cu", 0, None, None)
    options = [f"--gpu-architecture=sm_{architecture}", "--std=c++17"]
    options += [f"--include-path={headers()}"] if "#include" in source else []
    packed = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    failed = library.nvrtcCompileProgram(program, len(options), packed)
    size = ctypes.c_size_t()
    get = "ProgramLog" if failed else "CUBIN"
    getattr(library, f"nvrtcGet{get}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{get}")(program, text)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise Error(f"by_hand.py: NVRTC refuses the kernel written by hand: {text.value.decode()}\n{source}")
    return text.raw


# ---- the driver


def driver_call(name, *arguments):
    code = getattr(driver(), name)(*arguments)
    if code != 0:
        raise Error(f"by_hand.py: {name} answers CUDA error {code}")


@functools.cache
def driver():
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def function(source, architecture):
    """Stays loaded for the life of the process: graphs refer to it."""
    module, found = ctypes.c_void_p(), ctypes.c_void_p()
    driver_call("cuModuleLoadData", ctypes.byref(module), cubin(source, architecture))
    driver_call("cuModuleGetFunction", ctypes.byref(found), module, b"by_hand_kernel")
    return found


def launch(made, architecture, pointers, stream):
    """On device pointers: operands in their order, then the result."""
    values = [ctypes.c_void_p(pointer) for pointer in pointers] + [made.integer(number) for number in made.numbers]
    packed = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
    blocks = (made.numbers[0] + THREADS - 1) // THREADS
    driver_call("cuLaunchKernel", function(made.source, architecture), blocks, 1, 1, THREADS, 1, 1, 0,
                ctypes.c_void_p(stream or None), packed, None)
