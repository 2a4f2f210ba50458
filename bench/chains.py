"""A pointwise chain in EpiFuse's text language as what the peers take: a function of PyTorch's, and CUDA C++ as one writes it first.
The chains of the benchmarks are valid in all three languages but for the suffix of numbers, so that a case is written once.

    function("r = relu(x); r * clamp((r + 3) / 6, 0, 1)", ["x"], "f16", ["f16"])
    cuda_function(...)     # namespace by_hand { … float chain(float x) … }
"""
import linecache
import re
import zlib

# ---- PyTorch

FLOATS = ("f64", "f32", "f16", "bf16")  # what PyTorch computes in without a cast
I8_RANGE = (-128, 127)


def operations(torch):
    """Names of the language -> what a user of PyTorch calls."""
    F = torch.nn.functional
    return {"relu": torch.relu, "leaky_relu": F.leaky_relu, "gelu": F.gelu, "sigmoid": torch.sigmoid, "silu": F.silu,
            "mish": F.mish, "tanh": torch.tanh, "hardtanh": F.hardtanh, "hardswish": F.hardswish,
            "clamp": torch.clamp, "minimum": lambda x, most: torch.clamp(x, max=most)}


def statements(text):
    """The assignments of a chain, and the expression that is its result."""
    *assignments, result = [part.strip() for part in text.split(";")]
    return assignments, result


def function(torch, torch_dtype, text, names, dtypes, result, exact=False):
    """The chain on tensors of these types: those that PyTorch does not compute in are widened first, and the result is
    cast if that changes its type. `exact`: for operands in f64; the result stays what it is, within what `result` holds."""
    assignments, expression = statements(text)
    lines = [f"def chain({', '.join(names)}):"]
    lines += [f"    {name} = {name}.float()" for name, dtype in zip(names, dtypes) if not exact and dtype not in FLOATS]
    lines += [f"    {assignment}" for assignment in assignments]
    if result == "i8":
        rounded = "" if exact else ".round()"
        lines.append(f"    result = ({expression}){rounded}.clamp{I8_RANGE}")
    else:
        lines.append(f"    result = {expression}")
    computed = dtypes[0] if dtypes[0] in FLOATS else "f32"
    lines.append("    return result" if exact or computed == result else "    return result.to(result_type)")
    source = "\n".join(lines) + "\n"
    file = f"<chain {zlib.crc32(source.encode()):x}>"  # a name of its own, the same in every process, under which torch.compile finds the source
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = operations(torch) | {"result_type": torch_dtype(result)}
    exec(compile(source, file, "exec"), scope)  # pylint: disable=exec-used  # the chains are those of this folder
    return scope["chain"]


# ---- CUDA C++, as one writes it before one measures

HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"
CUDA_TYPES = {"f32": "float", "f16": "__half", "bf16": "__nv_bfloat16", "f8e4m3": "__nv_fp8_e4m3", "i8": "signed char",
              "i32": "int"}

HELPERS = """\
__device__ inline float clamp(float x, float low, float high) { return fminf(fmaxf(x, low), high); }
__device__ inline float minimum(float x, float y) { return fminf(x, y); }
__device__ inline float relu(float x) { return fmaxf(x, 0.0f); }
__device__ inline float leaky_relu(float x, float slope) { return x > 0.0f ? x : slope * x; }
__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float silu(float x) { return x / (1.0f + expf(-x)); }
__device__ inline float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
__device__ inline float tanh(float x) { return tanhf(x); }
__device__ inline float mish(float x) { return x * tanhf(log1pf(expf(x))); }
__device__ inline float hardtanh(float x, float low, float high) { return clamp(x, low, high); }
__device__ inline float hardswish(float x) { return x * clamp(x + 3.0f, 0.0f, 6.0f) / 6.0f; }
"""

NUMBER = re.compile(r"(?<![\w.])(\d+\.\d*|\d+)(?![\w.])")


def in_cuda(expression):
    """Numbers become floats: 2 is 2.0f."""
    return NUMBER.sub(lambda match: (match[1] if "." in match[1] else match[1] + ".0") + "f", expression)


def cuda_function(text, names):
    """The chain on floats, in a namespace of its own."""
    assignments, expression = statements(text)
    body = [f"  const float {in_cuda(assignment)};" for assignment in assignments]
    parameters = ", ".join(f"float {name}" for name in names)
    return "\n".join(["namespace by_hand {", HELPERS + f"__device__ inline float chain({parameters}) {{", *body,
                      f"  return {in_cuda(expression)};", "}", "}", ""])


def widened(value, dtype):
    return f"static_cast<float>({value})" if dtype in ("f8e4m3", "i8", "i32") else {
        "f32": "{}", "f16": "__half2float({})", "bf16": "__bfloat162float({})"}[dtype].format(value)


def narrowed(value, dtype):
    return {"f32": "{}", "f16": "__float2half({})", "bf16": "__float2bfloat16({})", "f8e4m3": "__nv_fp8_e4m3({})",
            "i8": "static_cast<signed char>(rintf(by_hand::clamp({}, -128.0f, 127.0f)))"}[dtype].format(value)
