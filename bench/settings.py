#!/usr/bin/env python3
"""Settings of the policy side by side: cases of bench/reductions.py, each under all settings in turn, in one process.

    bench/settings.py SPEC.json OUTPUT.jsonl            # needs a GPU and PyTorch
    bench/settings.py SPEC.json OUTPUT.jsonl --warm 0/8 # only compiles that share, into EPIFUSE_CACHE_DIR
    bench/settings.py SPEC.json --plans                 # what each setting plans and takes on sm_90; needs neither

SPEC.json is a list of
    {"cases": REGEX, "dtypes": ["f32"], "seconds": 0.02,
     "settings": {"base": {"lib": "tunable.so"}, "3M": {"lib": "tunable.so", "prefetch_bytes": 3000000}}}
where every key of a setting but `lib` is a number of the policy. bench/tunable.py makes such libraries; the first setting's also
serves what all need. A line of the output: case, type, the copy's time, and each setting's over the limit; `wrong` says which
were not timed, and why. Who runs after whom decides what the L2 cache holds: a difference below a percent counts only once
bench/reductions.py shows it beside torch.compile.
"""
import argparse
import ctypes
import importlib.util
import json
import os
import pathlib
import re
import shutil
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent


def bridge_of(setting, folder, number):
    """A bridge of its own, whose library nobody else has set."""
    copy = pathlib.Path(folder) / f"{number}.so"
    shutil.copy(setting["lib"], copy)
    os.environ["EPIFUSE_BENCH_LIB"] = str(copy)
    spec = importlib.util.spec_from_file_location(f"bridge_{number}", BENCH / "bridge.py")
    bridge = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bridge)
    bridge._library = bridge.open_library()
    for name, value in setting.items():
        if name == "lib":
            continue
        function = bridge._library.epifuse_bench_policy
        function.argtypes = [ctypes.c_char_p, ctypes.c_longlong]
        if function(name.encode(), value) != 0:
            raise SystemExit(f"settings.py: the policy has no number '{name}'")
    return bridge


def tasks(specs, cases):
    for spec in specs:
        for case in cases:
            for dtype in case.dtypes:
                if re.search(spec["cases"], case.name) and dtype in spec["dtypes"]:
                    yield spec, case, dtype


def compare(reductions, timing, spec, bridges, case, dtype):
    reductions.torch.manual_seed(7)
    named = reductions.make_operands(case, dtype)
    tails = {name: bridge.Tail(case.text) for name, bridge in bridges.items()}
    inputs = list(named.values())
    order = [list(named).index(name) for name in next(iter(tails.values())).inputs]
    results = reductions.make_results(case, next(iter(tails.values())), named, dtype)
    count = timing.bytes_of(inputs + results)
    sets = timing.sets_for(max(timing.bytes_of([tensor]) for tensor in inputs + results), count)
    launches = timing.launches_for(count, sets)
    wrong = {}
    for name, tail in tails.items():
        try:
            reductions.check(case, dtype, lambda tail=tail: tail(results, named, case.scalars), inputs, results)
        except (timing.Wrong, RuntimeError) as problem:
            wrong[name] = str(problem)[:200]
    reductions.torch.cuda.empty_cache()
    input_sets, result_sets = reductions.copies_of(inputs, sets), reductions.copies_of(results, sets)

    def launch(tail):
        return lambda i: tail(result_sets[i], [input_sets[i][k] for k in order], case.scalars)

    contestants = {"copy": timing.Copy(count, sets)}
    contestants |= {name: launch(tail) for name, tail in tails.items() if name not in wrong}
    seconds, _, _ = timing.measure(contestants, sets, launches, spec["seconds"], {})
    limit = seconds["copy"] * reductions.reductions_cases.LIMITS[case.limit]
    ratios = {name: round(time / limit, 4) for name, time in seconds.items() if name != "copy"}
    return {"case": case.name, "dtype": dtype, "copy_us": round(seconds["copy"] * 1e6, 1), "ratios": ratios} | (
        {"wrong": wrong} if wrong else {})


def warm(reductions, bridges, case, dtype):
    named = reductions.make_operands(case, dtype)
    for bridge in bridges.values():
        tail = bridge.Tail(case.text)
        tail(reductions.make_results(case, tail, named, dtype), named, case.scalars)
    reductions.torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path, nargs="?")
    parser.add_argument("--warm", metavar="K/N")
    parser.add_argument("--plans", action="store_true")
    options = parser.parse_args()
    if not (options.output or options.warm or options.plans):
        parser.error("OUTPUT.jsonl is missing")
    specs = json.loads(options.spec.read_text())
    os.environ["EPIFUSE_BENCH_LIB"] = next(iter(specs[0]["settings"].values()))["lib"]
    import gpu_timing
    import reductions
    if not options.plans:
        reductions.use_torch()
    chosen = list(tasks(specs, reductions.reductions_cases.ALL))
    if options.warm:
        index, _, count = options.warm.partition("/")
        chosen = chosen[int(index)::int(count)]
    with tempfile.TemporaryDirectory() as folder:
        made = {}
        for spec, case, dtype in chosen:
            if id(spec) not in made:
                made[id(spec)] = {name: bridge_of(setting, folder, f"{len(made)}-{i}")
                                  for i, (name, setting) in enumerate(spec["settings"].items())}
            bridges = made[id(spec)]
            if options.plans:
                for name, bridge in bridges.items():
                    bridge.View = reductions.bridge.View  # one class for all
                    print(f"{case.name} {dtype} {name}: {reductions.planned(bridge.Tail(case.text), case, dtype, 90)}")
            elif options.warm:
                warm(reductions, bridges, case, dtype)
            else:
                row = compare(reductions, gpu_timing, spec, bridges, case, dtype)
                print(json.dumps(row), flush=True)
                with options.output.open("a") as out:
                    out.write(json.dumps(row) + "\n")
                reductions.torch.cuda.empty_cache()
        for bridge in [bridge for bridges in made.values() for bridge in bridges.values()]:
            bridge.close()


if __name__ == "__main__":
    main()
