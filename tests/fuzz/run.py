"""Runs the fuzzers two at a time and writes executions and coverage as JSON. ./dev fuzz calls it.

What a fuzzer finds new goes to BUILD/fuzz-corpus/TARGET; --merge folds it into the corpus of the repository, minimised. An input that breaks a
promise is left in BUILD/fuzz-found/ and ends that fuzzer: once mended, it belongs into the corpus.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
TARGETS = ("parser", "plan", "npy", "cache_entry")
LONGEST = {"parser": 512, "plan": 256, "npy": 4096, "cache_entry": 4096}
SECONDS_PER_INPUT = 30  # beyond it an input counts as a hang; on a busy machine harmless ones wait for seconds


def write_dictionary(path):
    """The words of the text language: names and parameters of all functions, from the tables that define them."""
    words = set()
    for source in (*ROOT.glob("src/ir/*.def"), *ROOT.glob("src/ir/*.cpp")):
        for signature in re.findall(r'"([a-z_0-9]+\([^"]*\))"', source.read_text(encoding="utf-8")):
            words.update(re.findall(r"[a-z_][a-z_0-9]*", signature))
    path.write_text("".join(f'"{word}"\n' for word in sorted(words)), encoding="utf-8")


def command_of(target, build):
    command = [str(build / "tests" / "fuzz" / f"fuzz_{target}"), f"-max_len={LONGEST[target]}", f"-timeout={SECONDS_PER_INPUT}"]
    if target == "parser":
        dictionary = build / "parser.dict"
        write_dictionary(dictionary)
        command.append(f"-dict={dictionary}")
    return command


def fuzz(target, build, seconds):
    found = build / "fuzz-found"
    fresh = build / "fuzz-corpus" / target
    found.mkdir(exist_ok=True)
    fresh.mkdir(parents=True, exist_ok=True)
    log = build / f"fuzz-{target}.log"
    command = command_of(target, build) + [f"-max_total_time={seconds}", "-print_final_stats=1",
                                           f"-artifact_prefix={found}/{target}-", str(fresh), str(FOLDER / "corpus" / target)]
    start = time.monotonic()
    with open(log, "w", encoding="utf-8") as output:
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    return result_of(log, status, time.monotonic() - start)


def result_of(log, status, seconds):
    text = log.read_text(encoding="utf-8", errors="replace")
    number = lambda pattern: int((re.findall(pattern, text) or [0])[-1])
    return {
        "executions": number(r"stat::number_of_executed_units:\s+(\d+)"),
        "seconds": round(seconds, 1),
        "edges_covered": number(r"cov: (\d+)"),
        "edges": number(r"\((\d+) inline 8-bit counters\)"),
        "features": number(r"ft: (\d+)"),
        "peak_memory_mb": number(r"stat::peak_rss_mb:\s+(\d+)"),
        "good": status == 0,
    }


def show(target, result, build):
    speed = result["executions"] / max(result["seconds"], 0.1)
    print(f"fuzz {target:<12} {result['executions']:>10} executions, {speed:>6.0f} per second; "
          f"{result['edges_covered']} of {result['edges']} edges; {'good' if result['good'] else 'FAILED'}", flush=True)
    if not result["good"]:
        lines = (build / f"fuzz-{target}.log").read_text(encoding="utf-8", errors="replace").splitlines()
        wanted = [line for line in lines if re.search(r"broken promise|runtime error|ERROR:|^    #\d+ |Test unit written", line)]
        print("\n".join(wanted[:30] or lines[-30:]), flush=True)


def merge(target, build):
    """The smallest set of inputs, old and new, that reaches every edge. What once failed is kept by its name, `once-…`."""
    corpus = FOLDER / "corpus" / target
    small = build / "fuzz-small" / target
    small.mkdir(parents=True, exist_ok=True)
    for old in small.iterdir():
        old.unlink()
    subprocess.run(command_of(target, build) + ["-merge=1", "-use_counters=0", str(small), str(corpus), str(build / "fuzz-corpus" / target)],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    for old in corpus.iterdir():
        if not old.name.startswith("once-"):
            old.unlink()
    for new in small.iterdir():
        (corpus / new.name).write_bytes(new.read_bytes())
    print(f"fuzz {target:<12} {len(list(corpus.iterdir()))} inputs in {corpus.relative_to(ROOT)}", flush=True)


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def main():
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=int, default=60, help="of each target (default: 60)")
    parser.add_argument("--at-once", type=int, default=2, help="fuzzers that run at the same time (default: 2)")
    parser.add_argument("--json", type=Path, default=ROOT / "bench/results/fuzz.json", help="default: bench/results/fuzz.json")
    parser.add_argument("--merge", action="store_true", help="minimise the corpora with what was found, afterwards")
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")

    targets = options.targets or TARGETS
    results = {}
    with ThreadPoolExecutor(options.at_once) as pool:
        for target, result in zip(targets, pool.map(lambda t: fuzz(t, options.build, options.seconds), targets)):
            results[target] = result
            show(target, result, options.build)
    if options.merge:
        for target in targets:
            merge(target, options.build)
    text = json.dumps({"commit": commit(), "seconds_each": options.seconds, "at_once": options.at_once, "targets": results}, indent=2)
    options.json.write_text(text + "\n", encoding="utf-8")
    sys.exit(not all(result["good"] for result in results.values()))


if __name__ == "__main__":
    main()
