#!/usr/bin/env python3
"""What NVRTC takes for named kernels, in times of a bare kernel of one line that is compiled just before: user CPU time,
medians of several rounds in which all kernels take turns; and lines of source, instructions, registers and spills.

usage: bench/compile_time.py [--epifuse build/tools/epifuse] [--arch 90] [--output RECORD.json] [--dry-run]

No GPU is needed. Instructions are counted where nvdisasm is found (sass.py); on the hot path, which stores most, loops
count once.
"""

import argparse
import ctypes
import dataclasses
import json
import pathlib
import re
import resource
import statistics
import subprocess
import sys

import record
import sass

BARE = 'extern "C" __global__ void bare(float* x) { x[threadIdx.x] *= 2.0f; }\n'
NORM = ["silu(group_norm(x, 32, weight, bias))", "weight=f32[512]", "bias=f32[512]"]
FACTORS = ["x=bf16[8192,4096]", "w=bf16[4096,4096]"]
GATED = ["a, b = chunk(linear(x, w), 2, -1)", "x=bf16[4096,4096]", "w=bf16[22016,4096]"]
TEN = "tanh(mish(gelu(silu(linear(x, w, b)) * 2 + 1) - 3)) * sigmoid(r) + r"
CONVOLUTION = ["relu(conv2d(x, w)) + b", "x=bf16[128,64,128,128]:nhwc", "w=bf16[128,64,3,3]:nhwc", "b=f32[128,1,1]"]


def gated(then, *more):
    return [f"{GATED[0]}; {then}", *GATED[1:], *more]


PRODUCTS = {
    "bare": ["linear(x, w)", *FACTORS, "--out", "bf16"],
    "gelu(x + b) + r": ["gelu(linear(x, w, b)) + r", *FACTORS, "b=f32[4096]", "r=bf16[8192,4096]", "--out", "bf16"],
    "row squares": ["y = linear(x, w) + r; return y, sum(square(y), -1)", *FACTORS, "r=bf16[8192,4096]"],
    "ten operations": [TEN, *FACTORS, "b=f32[4096]", "r=bf16[8192,4096]", "--out", "bf16"],
    "silu(a) * b": gated("silu(a) * b", "--out", "bf16"),
    "silu(a) * b to fp8 per 1x32": gated("q, s = quantize(silu(a) * b, f8e4m3, 32); return q, s"),
    "convolution, relu(x) + b": [*CONVOLUTION, "--out", "bf16:nhwc"],
}
CASES = {  # name -> what `epifuse dump` is given
    "relu(x) + bias": ["relu(x) + bias", "x=f16[8192,8192]", "bias=f16[8192]"],
    "softmax of rows of 4096": ["softmax(x, axis=-1)", "x=f16[16384,4096]"],
    "rms_norm": ["rms_norm(x, w)", "x=bf16[16384,4096]", "w=bf16[4096]"],
    "layer_norm": ["layer_norm(x, w, b)", "x=bf16[16384,4096]", "w=bf16[4096]", "b=bf16[4096]"],
    "softmax over channels": ["softmax(x, axis=1)", "x=f16[16,64,128,128]"],
    "softmax over 512 channels": ["softmax(x, axis=1)", "x=f16[16,512,64,64]"],
    "GroupNorm, a cluster holds a group": [*NORM, "x=f16[16,512,64,64]", "--out", "f16"],
    "GroupNorm, many blocks hold a group": [*NORM, "x=f16[1,512,360,640]", "--out", "f16"],
    "GroupNorm, many blocks read a group twice": [*NORM, "x=f32[1,512,720,1280]"],
    "example 1": ["relu(x) + bias", "x=f16[128,128,126,126]", "bias=f32[128,1,1]", "--out", "f16"],
    "example 2": ["relu(x + bias)", "x=f16[1024,8192]", "bias=f32[8192]", "--out", "f16"],
    "example 3": ["sigmoid((x + b) * s)", "x=f16[128,32,254,254]", "b=f32[32,1,1]", "s=f32[32,1,1]", "--out", "f16"],
    "example 4": ["(minimum(x, 0.5) + bias) * 2.0", "x=f16[128,128,126,126]", "bias=f32[128,1,1]", "--out", "f16"],
    "example 5": ["x * sigmoid(x) + bias2", "x=f16[32768,4096]", "bias2=f32[4096]", "--out", "f16"],
    "example 6": ["relu(x * s + b)", "x=i32[8192,4096]", "s=f32[4096]", "b=f32[4096]", "--out", "i8"],
    "norm of rows of 256 behind a product": [
        "rms_norm(linear(x, w), g, 1e-6)",
        *["x=bf16[16384,1024]", "w=bf16[256,1024]", "g=bf16[256]", "--out", "bf16"],
    ],
    **{f"product, {name}": case for name, case in PRODUCTS.items()},
    **{f"product, {name}, sm_80": [*case, "--arch", "80"] for name, case in PRODUCTS.items()},
}
ROUNDS = 7
ARCHITECTURE = re.compile(r"^// It stands alone: nvcc .*-arch=sm_(\w+)", re.M)


@dataclasses.dataclass(frozen=True)
class Image:
    cubin: bytes
    log: str
    seconds: float  # of user CPU time


class Nvrtc:
    """The library that EpiFuse finds, with the options that it compiles with (src/jit/target.cpp, src/jit/nvrtc.cpp). `contract`: products and
    sums become one instruction, as by default for what one writes by hand."""

    def __init__(self, path, architecture, contract=False):
        self.library, self.architecture = ctypes.CDLL(path), architecture
        self.options = ["--std=c++17", f"--fmad={str(contract).lower()}", "-minimal", "--no-cache", "--ptxas-options=-v"]

    def text(self, what, program):
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw

    def compile(self, source):
        program = ctypes.c_void_p()
        self.library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel", 0, None, None)
        named = ARCHITECTURE.search(source)  # where a source says which it is for: products of sm_90 are for sm_90a
        given = [f"--gpu-architecture=sm_{named[1] if named else self.architecture}", *self.options]
        options = (ctypes.c_char_p * len(given))(*[option.encode() for option in given])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        failed = self.library.nvrtcCompileProgram(program, len(given), options)
        seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
        log = self.text("ProgramLog", program).decode()
        if failed:
            raise SystemExit(f"compile_time.py: NVRTC refuses a kernel:\n{log}")
        image = Image(self.text("CUBIN", program), log, seconds)
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return image


def emitted(tool, case, architecture):
    command = [tool, "dump", *case, "--emit", "cuda", *([] if "--arch" in case else ["--arch", str(architecture)])]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def nvrtc_of(tool):
    """The path of the library, and its version: doctor says "13.0 (/usr/…/libnvrtc.so.13)"."""
    report = subprocess.run([tool, "doctor", "--json"], capture_output=True, text=True, check=False).stdout
    version, _, path = json.loads(report)["nvrtc"].partition(" (")
    return path.rstrip(")"), version


def number_before(unit, log):
    found = re.search(rf"(\d+) {unit}", log)
    return int(found[1]) if found else None


def instructions_of(cubin):
    """In all, and on the hot path; None without a disassembler."""
    if sass.disassembler() is None:
        return None, None
    text = sass.disassemble(cubin)
    return sum(spent.instructions for spent, _ in sass.blocks_of(text)), sass.spent_on_hot_path(text).instructions


def measured(nvrtc, sources, rounds):
    """By name: the least seconds, the median of what each compile took over a bare kernel just before it, and the
    image. Where a machine is shared, both change with what else runs; their quotient does less."""
    found = {}
    for _ in range(rounds):
        for name, source in sources.items():
            bare, image = nvrtc.compile(BARE), nvrtc.compile(source)
            times, ratios, _ = found.setdefault(name, ([], [], image))
            times.append(image.seconds)
            ratios.append(image.seconds / bare.seconds)
    return {name: (min(times), statistics.median(ratios), image) for name, (times, ratios, image) in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epifuse", default="build/tools/epifuse")
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="emit each kernel, compile nothing")
    options = parser.parse_args()
    sources = {name: emitted(options.epifuse, case, options.arch) for name, case in CASES.items()}
    if options.dry_run:
        return print(f"{len(sources)} kernels, {sum(text.count(chr(10)) for text in sources.values())} lines")

    path, version = nvrtc_of(options.epifuse)
    found = measured(Nvrtc(path, options.arch), {"bare": BARE, **sources}, ROUNDS)
    records = []
    bare_ms = round(found.pop("bare")[0] * 1e3, 1)
    print(f"bare kernel: {bare_ms} ms of user CPU time, NVRTC {version}")
    for name, (seconds, over_bare, image) in found.items():
        instructions, hot = instructions_of(image.cubin)
        one = {
            "case": name,
            "ms": round(seconds * 1e3, 1),
            "over_bare": round(over_bare, 2),
            "lines": sources[name].count("\n"),
            "instructions": instructions,
            "hot_path": hot,
            "registers": number_before("registers", image.log),
            "spill_bytes": number_before("bytes spill stores", image.log),
        }
        records.append(one)
        print("  " + "  ".join(f"{key} {value}" for key, value in one.items()))
    if options.output:
        document = record.made(
            "compile-time",
            device="none (kernels are only compiled)",
            versions={"nvrtc": version},
            settings={"architecture": options.arch, "rounds": ROUNDS, "bare_ms": bare_ms},
            command=" ".join(["bench/compile_time.py", *sys.argv[1:]]),
            records=records,
        )
        record.write(options.output, document)
    return None


if __name__ == "__main__":
    main()
