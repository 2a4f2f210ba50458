#!/usr/bin/env python3
"""One run of every schedule under each of compute-sanitizer's checkers: memory, races, synchronisation, initialisation.

    bench/checkers.py --output checkers.json                # needs a GPU and compute-sanitizer, of the CUDA toolkit
    bench/checkers.py --only 'cluster|split' --jobs 3
    bench/checkers.py --dry-run                             # plans every one of them for an H100

Exit 1 where a checker found something; what it said is in OUTPUT.failures.txt then.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import record

CHECKERS = ("memcheck", "racecheck", "synccheck", "initcheck")
SECONDS = 120  # of one check
FOUND = 9  # compute-sanitizer's exit code for a finding, as we ask for it

CASES = (  # schedule, chain, what `epifuse run` and `epifuse dump` take beside it
    ("flat", "sigmoid((x + b) * 2)", "x=f16[8,32,30,30] b=f32[32,1,1] --out f16"),
    ("flat, odd lines", "gelu(x + b)", "x=f8e4m3[8,31,17,13] b=f32[31,1,1] --out f8e4m3"),
    ("by_row", "relu(x) * 2", "x=f16[300,1000]:strides(1024,1) --out f16:strides(1008,1)"),
    ("tiled_2d", "relu(x) + r", "x=f16[512,600]:strides(1,512) r=f16[512,600]"),
    ("transpose", "relu(x) + b", "x=f16[512,600]:strides(1,512) b=f16[600]"),
    ("transpose, odd lines", "relu(x) + b", "x=f8e4m3[4,96,33,37]:nhwc b=f32[96,1,1] --out f8e4m3"),
    ("transpose, lines cut at sectors", "gelu(x + b)", "x=f32[4,96,26,50]:nhwc b=f32[96,1,1] --out f32"),
    ("one thread per row", "amin(group_norm(x, 512, w, b), axis=1)", "x=f32[8,8192] w=f32[8192] b=f32[8192]"),
    ("rows of a result in passes", "amin(group_norm(x, 512, w, b), axis=1)", "x=f32[140,8192] w=f32[8192] b=f32[8192]"),
    ("lanes", "softmax(x, axis=-1)", "x=f16[512,257]"),
    ("registers of a block", "layer_norm(x, w, b)", "x=f16[600,4096] w=f16[4096] b=f16[4096]"),
    (
        "registers, saved value",
        "h = x + r; return h, rms_norm(h, w), amax(abs(h))",
        "x=f32[300,8192] r=f32[300,8192] w=f32[8192]",
    ),
    ("shared memory", "softmax(gelu(x), axis=-1)", "x=f32[300,16000]"),
    ("cluster", "softmax(x, axis=-1)", "x=f32[140,131072]"),
    ("cluster, odd rows", "log_softmax(x, axis=-1)", "x=f16[140,50257]"),
    (
        "cluster, neighbouring rows",
        "group_norm(x, 32, w, b)",
        "x=f16[8,256,64,64]:nhwc w=f16[256] b=f16[256] --out f16:nhwc",
    ),
    (
        "cluster, runs of two lanes",
        "group_norm(x, 32, w, b)",
        "x=f32[8,256,64,64]:nhwc w=f32[256] b=f32[256] --out f32:nhwc",
    ),
    (
        "segments of rows, few lanes",
        "mean(relu(group_norm(x, 32, w, b)), axis=(2,3))",
        "x=f32[64,256,7,7] w=f32[256] b=f32[256]",
    ),
    (
        "segments of rows, lanes of a block",
        "mean(relu(group_norm(x, 4, w, b)), axis=(2,3))",
        "x=f16[150,64,14,14] w=f16[64] b=f16[64]",
    ),
    (
        "segments of rows, registers",
        "mean(relu(group_norm(x, 4, w, b)), axis=(2,3))",
        "x=f32[150,8,64,64] w=f32[8] b=f32[8]",
    ),
    (
        "segments of rows, cluster",
        "mean(relu(group_norm(hardswish(x), 4, w, b)), axis=(2,3,4))",
        "x=f16[160,16,13,29,29] w=f16[16] b=f16[16]",
    ),
    ("segment means", "mean(group_norm(gelu(x), 4, w, b), axis=(2,3))", "x=f16[150,16,37,41] w=f32[16] b=f32[16] --out f16"),
    (
        "segment means of a block",
        "mean(group_norm(x, 8, w, b), axis=(1,2,3))",
        "x=f32[120,16,32,32] w=f32[16] b=f32[16]",
    ),
    ("segment means of blocks", "mean(group_norm(x, 4, w, b), axis=(1,2,3))", "x=f32[90,16,32,32] w=f32[16] b=f32[16]"),
    ("outer reduction, exponentials held", "sigmoid(softmax(x + b, axis=1))", "x=f32[16,64,32,33] b=f32[64,1,1]"),
    ("one pass, registers", "amin(x, axis=-1)", "x=f32[300,8192]"),
    ("one pass, looped", "mean(gelu(x), axis=-1)", "x=f32[300,64516]"),
    ("outer reduction", "softmax(x, axis=1)", "x=f16[4,128,64,64]"),
    ("outer reduction, odd lines", "softmax(x, axis=1)", "x=f16[2,128,129,129]"),
    ("outer reduction, cluster", "softmax(x, axis=0)", "x=f32[4096,512]"),
    ("split_resident", "group_norm(gelu(x), 2)", "x=f32[2,8,360,320]"),
    ("split_resident, 16 bits", "group_norm(gelu(x), 8)", "x=f16[4,64,258,258]"),
    ("split_resident, long rows", "group_norm(gelu(x), 1)", "x=f32[2,8,640,500]"),
    ("rows, transposed results", "softmax(x, axis=1)", "x=f16[2,64,33,37]:nhwc"),
    ("registers, transposed results", "softmax(x, axis=1)", "x=f16[2,64,33,37] --out f16:nhwc"),
    ("split, transposed results", "group_norm(gelu(x), 8, w, b)", "x=f16[2,64,96,97]:nhwc w=f16[64] b=f16[64]"),
    ("split outer reduction, transposed results", "instance_norm(x)", "x=f32[8,64,16,17]:nhwc"),
    ("split", "group_norm(gelu(x), 1, w, b)", "x=f32[2,8,1024,1024] w=f32[8] b=f32[8]"),
    ("split, one pass", "mean(x, axis=-1)", "x=f32[2,4000000]"),
    ("split outer reduction", "mean(x, axis=0)", "x=f32[65536,512]"),
    ("grid reduction", "y = layer_norm(x); return y, amax(abs(y))", "x=f16[2000,1000]"),
    ("flat, a run for several views", "max_pool2d(x, 2)", "x=f16[4,16,32,64]"),
    ("flat, elements beside a run", "avg_pool2d(x, 3, 1, 1)", "x=f16[4,16,30,64]"),
    ("flat, several views in rows cut short", "max_pool2d(x, 3, 2, 1)", "x=f16[4,16,31,63]"),
    ("flat, results with gaps", "rope(q, c, s)", "q=f16[2,4,64,128] c=f32[64,64] s=f32[64,64] --out f16"),
    ("flat, padded and rolled", "relu(roll(pad(x, (3, 5)), 7, -1))", "x=f16[64,500]"),
    ("rows at an index", "layer_norm(embedding(ids, w), g, b)", "ids=i64[8,16] w=f16[300,768] g=f16[768] b=f16[768]"),
    ("blocks that are quantised", "q, s = mx_quantize(silu(x) * y, f8e4m3); return q, s", "x=bf16[64,1024] y=bf16[64,1024]"),
    ("blocks of 4 bits", "q, s = nv_quantize(silu(x) * y, g); return q, s", "x=bf16[64,1024] y=bf16[64,1024] g=f32[]"),
    (
        "heads that are quantised",
        "q, s = quantize(rope(rms_norm(k, w), c, s0, at), f8e4m3); return q, s",
        "k=bf16[64,4,128] w=bf16[128] c=f32[64,64] s0=f32[64,64] at=i32[64,1]",
    ),
    ("rows, several views in a run", "logsumexp(max_pool2d(x, 2), axis=-1)", "x=f16[64,32,256]"),
    ("rows, two results in turns", "stack((softmax(x, -1), x), -1)", "x=f16[300,512]"),
    ("flat, two results in turns", "stack((relu(x), silu(y)), -1)", "x=f16[300,512] y=f16[300,512]"),
    ("flat, a result written to four places", "gelu(avg_pool2d(x, 2))", "x=f16[4,16,28,28] --gradient x"),
    ("rows, gradients in runs", "group_norm(max_pool2d(tanh(x), 2), 8)", "x=f16[4,64,28,28] --gradient x"),
    ("gradients of weights", "layer_norm(x, w, b)", "x=f16[600,1024] w=f16[1024] b=f16[1024] --gradient x,w,b"),
    ("product, warp groups share tiles", "gelu(linear(x, w, b)) + r", "x=bf16[4090,520] w=bf16[1000,520] b=bf16[1000] r=bf16[4090,1000]"),
    ("product, warp groups take turns", "relu(linear(x, w))", "x=f16[4100,264] w=f16[1152,264]"),
    ("product, blocks share a depth", "relu(linear(x, w, b))", "x=bf16[512,2048] w=bf16[4096,2048] b=bf16[4096]"),
    ("two products", "silu(linear(x, w)) * linear(x, v)", "x=f8e4m3[2048,512] w=f8e4m3[1024,512] v=f8e4m3[1024,512] --out bf16"),
    (
        "product, partial results of rows",
        "y = linear(x, w) + r; return y, sum(square(y), -1, keepdim=true)",
        "x=bf16[4096,1024] w=bf16[1024,1024] r=bf16[4096,1024]",
    ),
    (
        "product, groups of columns",
        "q, s = quantize(linear(x, w) * linear(x, v), f8e5m2, 32); return q, s",
        "x=bf16[16384,1024] w=bf16[1152,1024] v=bf16[1152,1024]",
    ),
    ("product, whole rows", "rms_norm(linear(x, w))", "x=bf16[2000,512] w=bf16[248,512]"),
    ("product, f32 in TF32", "relu(linear(x, w, b, tf32=true))", "x=f32[4090,520] w=f32[1000,520] b=f32[1000]"),
    (
        "product, scales of blocks",
        "relu(scaled_mm(x, transpose(w, 0, 1), sx, transpose(sw, 0, 1)) + b)",
        "x=f8e4m3[2050,528] w=f8e4m3[1008,528] sx=f32[2050,5] sw=f32[8,5] b=bf16[1008] --out bf16",
    ),
    (
        "convolution",
        "relu(conv2d(x, w, stride=1, padding=1)) + b",
        "x=bf16[16,64,28,28]:nhwc w=bf16[128,64,3,3]:nhwc b=f32[128,1,1] --out bf16:nhwc",
    ),
)


def on_gpu(tool, chain, more):
    """By checker "ok" or "FAILED", and what the failing ones said."""
    verdicts, said = {}, []
    for checker in CHECKERS:
        command = [
            "compute-sanitizer",
            "--tool",
            checker,
            "--error-exitcode",
            str(FOUND),
            tool,
            "run",
            "--device",
            "cuda",
            chain,
            *more,
        ]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
                env=os.environ | {"EPIFUSE_CACHE": "off"},
            )
            good, text = done.returncode == 0, done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            good, text = False, f"it took more than {SECONDS} s"
        verdicts[checker] = "ok" if good else "FAILED"
        said += [] if good else [f"{checker}:\n{text}"]
    return verdicts, said


def planned(tool, chain, more):
    """The plan's first line for an H100; exit code."""
    done = subprocess.run(
        [tool, "dump", chain, *more, "--arch", "sm_90", "--emit", "plan"], capture_output=True, text=True, check=False
    )
    return done.returncode, (done.stdout if done.returncode == 0 else done.stderr).strip().partition("\n")[0]


def dry_run(tool, cases):
    failed = 0
    for name, chain, more in cases:
        code, text = planned(tool, chain, more.split())
        failed += code != 0
        print(f"{name:34} {'FAILED: ' if code else ''}{text}", flush=True)
    return 1 if failed else 0


def version():
    lines = (
        subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=True)
        .stdout.strip()
        .splitlines()
    )
    return lines[-1].removeprefix("Version ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epifuse", default="build/tools/epifuse", help="the tool (%(default)s)")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--only", default="", metavar="REGEX", help="of names of schedules; all by default")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count(),
        help="at once: most of a check is the checker's own start (one per core)",
    )
    parser.add_argument("--dry-run", action="store_true", help="what needs no GPU")
    options = parser.parse_args()
    cases = [case for case in CASES if re.search(options.only, case[0])]
    if not cases:
        parser.error(f"--only {options.only}: no schedule of that name")
    if options.dry_run:
        return dry_run(options.epifuse, cases)
    records, failures = [], []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (name, _, _), (verdicts, said) in zip(
            cases, pool.map(lambda case: on_gpu(options.epifuse, case[1], case[2].split()), cases)
        ):
            records.append({"schedule": name, **verdicts})
            failures += [f"{name}, {text}" for text in said]
            print(f"{name:34} {', '.join(f'{checker} {verdict}' for checker, verdict in verdicts.items())}", flush=True)
    if options.output:
        record.write(
            options.output,
            record.made(
                "checkers",
                device=record.asked_of_gpu("name"),
                driver=record.asked_of_gpu("driver_version"),
                versions={"compute-sanitizer": version()},
                command=" ".join(["bench/checkers.py", *sys.argv[1:]]),
                records=records,
            ),
        )
        if failures:
            options.output.with_suffix(".failures.txt").write_text("\n\n".join(failures), encoding="utf-8")
    print("some failed" if failures else f"all {'of these ' if options.only else ''}schedules passed all checkers")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
