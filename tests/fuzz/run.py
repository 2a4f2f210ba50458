"""Runs the fuzzers and writes executions, time and coverage into a record file (bench/record.py). ./dev fuzz calls it.

Every worker is a libFuzzer process; those of one fuzzer share what they find in BUILD/fuzz-corpus/TARGET. A run is added to the runs that the
file holds, and the totals of all are printed. --merge folds what was found into the corpus of the repository, minimised. An input that breaks
a promise is left in BUILD/fuzz-found/ and ends its worker: once mended, it belongs into the corpus.

On another machine: --out FOLDER leaves the run and the corpora there; --collect FOLDER adds them here."""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import record as record_file  # noqa: E402

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
REPORT = ROOT / "bench/results/fuzz.json"
LONGEST = {"parser": 512, "plan": 256, "npy": 4096, "cache_entry": 4096, "bundle": 4096}  # bytes of an input, by target
TARGETS = tuple(LONGEST)
SECONDS_PER_INPUT = 30  # beyond it an input counts as a hang; on a busy machine harmless ones wait for seconds
RUN, CORPORA = "fuzz-run.json", "fuzz-corpora.tar.gz"  # what --out leaves and --collect takes


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
        command.append(f"-dict={build / 'parser.dict'}")
    return command


def folders_of(target, build):
    return [str(build / "fuzz-corpus" / target), str(FOLDER / "corpus" / target)]


def execute(command, log):
    """Status, seconds by the clock and seconds of processor time of one process, whose output goes to `log`."""
    start = time.monotonic()
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, time.monotonic() - start, usage.ru_utime + usage.ru_stime


def log_of(target, worker, build):
    return build / f"fuzz-{target}-{worker}.log"


def number(pattern, text):
    return int((re.findall(pattern, text) or [0])[-1])


def work(job, build, seconds):
    target, worker = job
    log = log_of(target, worker, build)
    status, wall, cpu = execute(command_of(target, build) + [
        f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={build}/fuzz-found/{target}-",
        *folders_of(target, build)], log)
    text = log.read_text(encoding="utf-8", errors="replace")
    return {"executions": number(r"stat::number_of_executed_units:\s+(\d+)", text), "wall": wall, "cpu": cpu, "good": status == 0,
            "peak_memory_mb": number(r"stat::peak_rss_mb:\s+(\d+)", text)}


def coverage(target, build):
    """What all inputs together reach, those of the repository and those found since."""
    log = log_of(target, "coverage", build)
    execute(command_of(target, build) + ["-runs=0", *folders_of(target, build)], log)
    text = log.read_text(encoding="utf-8", errors="replace")
    return {"edges_covered": number(r"cov: (\d+)", text), "edges": number(r"\((\d+) inline 8-bit counters\)", text),
            "features": number(r"ft: (\d+)", text)}


def result_of(target, workers, build):
    return {
        "executions": sum(worker["executions"] for worker in workers),
        "workers": len(workers),
        "worker_seconds": round(sum(worker["wall"] for worker in workers), 1),
        "cpu_seconds": round(sum(worker["cpu"] for worker in workers), 1),
        **coverage(target, build),
        "peak_memory_mb": max(worker["peak_memory_mb"] for worker in workers),
        "good": all(worker["good"] for worker in workers),
    }


def show(target, result, build):
    speed = result["executions"] / max(result["cpu_seconds"], 0.1)
    print(f"fuzz {target:<12} {result['executions']:>10} executions in {result['worker_seconds']:.0f} s ({result['cpu_seconds']:.0f} s of "
          f"processor time, {speed:.0f} per second of it); {result['edges_covered']} of {result['edges']} edges; "
          f"{'good' if result['good'] else 'FAILED'}", flush=True)
    for log in sorted(build.glob(f"fuzz-{target}-*.log")) if not result["good"] else ():
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        wanted = [line for line in lines if re.search(r"broken promise|runtime error|ERROR:|^    #\d+ |Test unit written", line)]
        if wanted:
            print("\n".join([log.name, *wanted[:30]]), flush=True)


def run(targets, options):
    """All workers of all targets, options.at_once at the same time; the run's record."""
    build = options.build
    if "parser" in targets:
        write_dictionary(build / "parser.dict")
    (build / "fuzz-found").mkdir(exist_ok=True)
    for target in targets:
        (build / "fuzz-corpus" / target).mkdir(parents=True, exist_ok=True)
        for old in build.glob(f"fuzz-{target}-*.log"):
            old.unlink()
    # Worker by worker and not target by target: where fewer run at once than there are, each target gets its share from the start on.
    jobs = [(target, worker) for worker in range(options.workers) for target in targets]
    record = {"date": datetime.date.today().isoformat(), "commit": commit(), "cores": os.cpu_count(), "seconds_each": options.seconds,
              "at_once": options.at_once}
    start = time.monotonic()
    with ThreadPoolExecutor(options.at_once) as pool:
        done = list(zip(jobs, pool.map(lambda job: work(job, build, options.seconds), jobs)))
    record |= {"wall_seconds": round(time.monotonic() - start, 1), "targets": {}}
    for target in targets:
        record["targets"][target] = result_of(target, [result for (name, _), result in done if name == target], build)
        show(target, record["targets"][target], build)
    return record


def totals(runs):
    """Per target: what all runs did, and the most that any of them reached."""
    out = {}
    for target in TARGETS:
        results = [run["targets"][target] for run in runs if target in run["targets"]]
        if not results:
            continue
        out[target] = {name: round(sum(result[name] for result in results), 1) for name in ("executions", "worker_seconds", "cpu_seconds")}
        out[target] |= {name: max(result[name] for result in results) for name in ("edges_covered", "edges", "features", "peak_memory_mb")}
        out[target]["good"] = all(result["good"] for result in results)
    return out


def add(path, runs):
    """Adds runs to a report, each with its own commit and date; prints what all of them come to."""
    known = record_file.read(path)["records"] if path.exists() else []
    runs = known + [run for run in runs if run not in known]
    record_file.write(path, record_file.made("fuzz", device=None, command="./dev fuzz", records=runs) | {"commit": None, "date": None})
    for target, total in totals(runs).items():
        print(f"fuzz {target:<12} {len(runs)} runs: {total}", flush=True)


def merge(target, build):
    """The smallest set of inputs, old and new, that reaches every edge. What once failed is kept by its name, `once-…`."""
    corpus = FOLDER / "corpus" / target
    small = build / "fuzz-small" / target
    small.mkdir(parents=True, exist_ok=True)
    for old in small.iterdir():
        old.unlink()
    fresh, kept = folders_of(target, build)
    subprocess.run(command_of(target, build) + ["-merge=1", "-use_counters=0", str(small), kept, fresh],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    for old in corpus.iterdir():
        if not old.name.startswith("once-"):
            old.unlink()
    for new in small.iterdir():
        (corpus / new.name).write_bytes(new.read_bytes())
    print(f"fuzz {target:<12} {len(list(corpus.iterdir()))} inputs in {corpus.relative_to(ROOT)}", flush=True)


def leave(record, build, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RUN).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    with tarfile.open(folder / CORPORA, "w:gz") as archive:
        for name in ("fuzz-corpus", "fuzz-found"):
            archive.add(build / name, arcname=name)


def collect(folders, build):
    """The runs of those folders; their corpora join those of `build`."""
    for folder in folders:
        with tarfile.open(folder / CORPORA) as archive:
            archive.extractall(build, filter="data")
    return [json.loads((folder / RUN).read_text(encoding="utf-8")) for folder in folders]


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or os.environ.get("EPIFUSE_COMMIT")


def arguments():
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=int, default=60, help="of each worker (default: 60)")
    parser.add_argument("--workers", type=int, default=1, help="processes of each fuzzer (default: 1)")
    parser.add_argument("--at-once", type=int, default=os.cpu_count(), help="processes at the same time (default: one per core)")
    parser.add_argument("--json", type=Path, default=REPORT, help=f"the report that gets this run (default: {REPORT.relative_to(ROOT)})")
    parser.add_argument("--merge", action="store_true", help="minimise the corpora with what was found, afterwards")
    parser.add_argument("--out", type=Path, help=f"a folder for {RUN} and {CORPORA}, instead of the report")
    parser.add_argument("--collect", type=Path, nargs="+", metavar="FOLDER", help="fuzz nothing, add what --out left in these")
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    return options


def main():
    options = arguments()
    targets = options.targets or TARGETS
    runs = collect(options.collect, options.build) if options.collect else [run(targets, options)]
    if options.out:
        leave(runs[0], options.build, options.out)
    else:
        add(options.json, runs)
    if options.merge:
        write_dictionary(options.build / "parser.dict")
        for target in targets:
            merge(target, options.build)
    sys.exit(not all(result["good"] for run in runs for result in run["targets"].values()))


if __name__ == "__main__":
    main()
