"""The contestants of bench/pointwise.py: what each runs for a case, on the same buffers. A contestant is called with the number of a set
of buffers; PyTorch's choose the memory of their results themselves."""
import functools
import importlib.util
import math

import by_hand
import chains
from gpu_timing import Torch, Wrong, first_line, row_major, torch_dtype

torch = F = None  # set by use()
ALIGNMENT = 256  # bytes: of each buffer in its arena


def use(module):
    global torch, F
    torch, F = module, module.nn.functional


# ---- memory


def random_values(dtype, count):
    if dtype == "i8":
        return torch.randint(-100, 100, (count,), dtype=torch.int8, device="cuda")
    if dtype == "i32":
        return torch.randint(-30000, 30000, (count,), dtype=torch.int32, device="cuda")
    if dtype in chains.FLOATS:
        return torch.randn(count, dtype=torch_dtype(dtype), device="cuda")
    return torch.randn(count, dtype=torch.float16, device="cuda").to(torch_dtype(dtype))


def make_sets(operand, sets, filled=True):
    """The operand `sets` times with the same values, in one piece of memory."""
    layout, kind = operand.layout, torch_dtype(operand.dtype)
    count, unit = layout.storage_elements(), ALIGNMENT // layout.itemsize
    step = (count + unit - 1) // unit * unit
    arena = torch.empty((sets, step), dtype=kind, device="cuda")
    if filled:
        arena[0, :count] = random_values(operand.dtype, count) if operand.fill == "normal" else float(operand.fill)
        arena[1:] = arena[0]
    return [torch.as_strided(arena, layout.shape, layout.strides, k * step + layout.offset) for k in range(sets)]


def bytes_in_memory(tensors):
    """All sets of an operand, with what lies between them."""
    return torch.empty(0, dtype=torch.uint8, device="cuda").set_(tensors[0].untyped_storage())


# ---- ours, and those that write where they are told


def epifuse(tail, names, input_sets, results):
    order = [names.index(name) for name in tail.inputs]
    return lambda i: tail([results[i]], [input_sets[i][k] for k in order])


def by_hand_kernel(case):
    described = [(name, operand.dtype, operand.layout.shape, operand.layout.strides) for name, operand in case.operands.items()]
    result = case.result
    return by_hand.kernel(case.text, described, ("result", result.dtype, result.layout.shape, result.layout.strides))


def by_hand_run(case, architecture, input_sets, results):
    made = by_hand_kernel(case)
    pointers = [[tensor.data_ptr() for tensor in (*inputs, result)] for inputs, result in zip(input_sets, results)]
    return lambda i: by_hand.launch(made, architecture, pointers[i], torch.cuda.current_stream().cuda_stream)


# ---- CuPy

CUPY_TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i32": "int32"}


@functools.cache
def cupy_version():
    """None where there is none."""
    if not importlib.util.find_spec("cupy"):
        return None
    import cupy
    return cupy.__version__


@functools.cache
def cupy_types():
    """It has no floats of 8 bits, and bf16 only since 14.0 with ml_dtypes, which names the type for NumPy."""
    if int(cupy_version().split(".")[0]) < 14 or not importlib.util.find_spec("ml_dtypes"):
        return {name: theirs for name, theirs in CUPY_TYPES.items() if name != "bf16"}
    import ml_dtypes  # pylint: disable=unused-import  # for its effect
    return CUPY_TYPES


def cupy_can(case):
    return all(operand.dtype in cupy_types() for operand in case.tensors())


def cupy_kernel(case):
    import cupy
    names = list(case.operands)
    ins = ", ".join(f"{CUPY_TYPES[operand.dtype]} {name}" for name, operand in case.operands.items())
    value = f"by_hand::chain({', '.join(f'static_cast<float>({name})' for name in names)})"
    if case.result.dtype == "i8":
        value = chains.narrowed(value, "i8")  # CuPy's own cast neither rounds nor saturates
    return cupy.ElementwiseKernel(ins, f"{CUPY_TYPES[case.result.dtype]} result", f"result = {value}", "cupy_elementwise",
                                  preamble=chains.cuda_function(case.text, names))


def cupy_array(tensor, dtype):
    import cupy
    memory = cupy.cuda.UnownedMemory(tensor.data_ptr(), tensor.untyped_storage().nbytes(), tensor)
    strides = tuple(stride * tensor.element_size() for stride in tensor.stride())
    return cupy.ndarray(tuple(tensor.shape), CUPY_TYPES[dtype], cupy.cuda.MemoryPointer(memory, 0), strides)


def cupy_run(case, input_sets, results):
    import cupy
    kernel = cupy_kernel(case)
    dtypes = [operand.dtype for operand in case.tensors()]
    arrays = [[cupy_array(tensor, dtype) for tensor, dtype in zip((*inputs, result), dtypes)]
              for inputs, result in zip(input_sets, results)]

    def run(i):
        with cupy.cuda.Stream.from_external(torch.cuda.current_stream()):
            kernel(*arrays[i])

    return run


def of_cupy(case, input_sets, results, problems):
    """{} where there is no CuPy, where it lacks a type, and where it fails: then `problems` says why."""
    if not cupy_version() or not cupy_can(case):
        return {}
    try:
        return {"cupy": cupy_run(case, input_sets, results)}
    except Exception as problem:
        problems["cupy"] = first_line(problem)
        return {}


# ---- PyTorch


def chain_of(case, exact=False):
    return chains.function(torch, torch_dtype, case.text, list(case.operands),
                           [operand.dtype for operand in case.operands.values()], case.result.dtype, exact)


def reference(case):
    """On operands in f64."""
    return chain_of(case, exact=True)


def check_shapes(case):
    """Raises Wrong where PyTorch's function gives another shape or type than the case says; on tensors without data."""
    tensors = [torch.empty_strided(operand.layout.shape, operand.layout.strides, dtype=torch_dtype(operand.dtype), device="meta")
               for operand in case.operands.values()]
    found = chain_of(case)(*tensors)
    expected = (case.result.layout.shape, torch_dtype(case.result.dtype))
    if (tuple(found.shape), found.dtype) != expected:
        raise Wrong(f"PyTorch's function gives {tuple(found.shape)} of {found.dtype}, the case says {expected}")


def as_written(case, chain):
    """The chain, whose result lies as ours does."""
    shape, strides = case.result.layout.shape, case.result.layout.strides
    dense = tuple(math.prod(shape[d + 1:]) for d in range(len(shape)))
    return row_major(chain) if tuple(strides) == dense else chain


def of_torch(case, producer, columns, input_sets, options):
    """torch.compile and eager, behind their producer where there is one."""
    if options.no_torch:
        return {}
    chain = as_written(case, chain_of(case))
    function = with_producer(producer, chain) if producer else chain
    operands = [[*producer.operands, *inputs[1:]] for inputs in input_sets] if producer else input_sets
    runs = {"eager": Torch(function, operands)}
    if not options.no_compile:
        runs["compile"] = Torch(torch.compile(function, fullgraph=True, dynamic=False), operands)
    return runs


# ---- producers


class Made:
    """A producer with its operands: one set, since what it writes is what the tail reads."""

    def __init__(self, case):
        spec, kind = case.producer, torch_dtype(case.operands["x"].dtype)
        nhwc = case.operands["x"].layout.strides[1] == 1 and len(spec.a) == 4
        order = torch.channels_last if nhwc else torch.contiguous_format
        fan_in = spec.b[0] if spec.kind == "matmul" else spec.b[1] * spec.b[2] * spec.b[3]
        self.operands = [torch.randn(spec.a, dtype=kind, device="cuda").to(memory_format=order),
                         (torch.randn(spec.b, dtype=kind, device="cuda") * fan_in**-0.5).to(memory_format=order)]
        self.function = {"matmul": torch.matmul, "conv2d": F.conv2d}[spec.kind]

    def __call__(self, i):
        return self.function(*self.operands)


def producer(case):
    return Made(case) if case.producer else None


def with_producer(made, chain):
    def function(a, b, *rest):
        return chain(made.function(a, b), *rest)

    return function


def behind(made, case_tail, names, input_sets, results):
    """The producer alone, and EpiFuse's tail on what it wrote."""
    order = [names.index(name) for name in case_tail.inputs]

    def run(i):
        operands = [made(i), *input_sets[i][1:]]
        case_tail([results[i]], [operands[k] for k in order])

    return {"producer": made, "epifuse": run}
