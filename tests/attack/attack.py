#!/usr/bin/env python3
"""The cache and the process under attack. Each attack is a function that gives its figures and fails where something is not as docs/guide/cache.md
and docs/guide/reliability.md promise.

    attack.py NAME…                             the slice that CI runs (ctest's attack.NAME)
    attack.py --long --report FILE NAME…        longer, with the figures as JSON (tests/attack/report.sh)

`cache`, `process` and `process-gpu` name all attacks on these. ATTACK_BUILD is the folder with the programs, the fake NVRTC and the layer that is loaded
between the worker and the file system; ATTACK_TSAN_BUILD, if set, that of a build for the thread sanitizer."""

import argparse
import errno
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import record as record_file  # noqa: E402

BUILD = Path(os.environ.get("ATTACK_BUILD", "build/tests/attack")).resolve()
WORKER, FAKE, LAYER = (BUILD / name for name in ("epifuse_attack_worker", "libepifuse_fake_nvrtc.so", "libepifuse_interpose.so"))
KERNELS = 20
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
NOBODY = 65534
FAULTS = "ENOSPC EDQUOT EIO EROFS EACCES EPERM ESTALE ENOENT EINTR ENOLCK EMFILE EEXIST ELOOP EXDEV ENOMEM".split()


def require(condition, what):
    if not condition:
        raise AssertionError(what)


class Place:
    """A folder with a cache in it, and workers that use that cache."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="epifuse-attack-"))
        self.folder.chmod(0o755)
        self.cache = self.folder / "cache"
        self.compiles = self.folder / "compiles"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *arguments, user=None, layer=False, **settings):
        """A worker that waits for its standard input to end, if it gets kernels."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("EPIFUSE", "ATTACK"))}
        env = inherited | {"EPIFUSE_CACHE_DIR": str(self.cache), "EPIFUSE_NVRTC": str(FAKE), "ATTACK_COMPILES": str(self.compiles)}
        env |= {name: str(value) for name, value in settings.items()}
        if layer:
            env["LD_PRELOAD"] = str(LAYER)
        return subprocess.Popen([WORKER, *map(str, arguments)], env={k: v for k, v in env.items() if v}, user=user,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments, **settings):
        return finish(self.start(*arguments, **settings))

    def compiled(self):
        """Lines of the fake NVRTC: one for each compile, of whichever process."""
        return self.compiles.read_text().splitlines() if self.compiles.exists() else []


def finish(worker):
    out, err = worker.communicate(timeout=280)
    require(worker.returncode == 0, f"a worker ended with {worker.returncode}: {err}")
    result = json.loads(out)
    require(result.get("wrong", 0) == 0, f"wrong images: {result}")
    return result | {"log": err}


def start_together(workers):
    """Lets all of them begin at once; their results."""
    time.sleep(0.01 * len(workers))
    for worker in workers:
        worker.stdin.close()
        worker.stdin = None
    return [finish(worker) for worker in workers]


def total(results, name):
    return sum(result[name] for result in results)


def race(long):
    """Many processes start at once on an empty cache and want the same kernels: each is compiled once."""
    figures = {}
    with Place() as place:
        results = start_together([place.start("get", 0, KERNELS, ATTACK_COMPILE_MS=20) for _ in range(64)])
        compiled = place.compiled()
        require(len(compiled) == len(set(compiled)) == KERNELS == total(results, "compiles"),
                f"{len(compiled)} compiles of {len(set(compiled))} kernels, {KERNELS} were wanted")
        require(len({result["images"] for result in results}) == 1, "the processes got different images")
        leftovers = [name for name in os.listdir(place.cache) if not name.endswith(".image")]
        require(not leftovers, f"left over: {leftovers}")
        logged = start_together([place.start("get", 0, KERNELS, EPIFUSE_LOG="info")])[0]
        require(f"0 from memory, 0 from bundles, {KERNELS} from disk" in logged["log"], f"no statistics in the log at exit: {logged['log']}")
        require(logged["saved_ms"] > 0.5 * 20 * KERNELS, f"{logged['saved_ms']} ms saved of {20 * KERNELS}")
        figures["fake_nvrtc"] = {
            "processes": len(results), "kernels": KERNELS, "compiles": len(compiled), "disk_hits": total(results, "disk_hits"),
            "waits_in_vain": total(results, "vain_waits"), "compile_ms": 20,
            "saved_ms_of_one_later_process": round(logged["saved_ms"]), "seconds": round(max(r["seconds"] for r in results), 3)}
    processes, kernels = (64, KERNELS) if long else (8, 4)
    with Place() as place:
        workers = [place.start("get", 0, kernels, ATTACK_REAL=1, EPIFUSE_NVRTC="") for _ in range(processes)]
        try:
            results = start_together(workers)
        except AssertionError as problem:
            if "is not installed" not in str(problem):
                raise
            figures["nvrtc"] = "not installed"
            return figures
        require(total(results, "compiles") == kernels, f"{total(results, 'compiles')} compiles of {kernels} kernels")
        require(len({result["images"] for result in results}) == 1, "the processes got different images")
        figures["nvrtc"] = {"processes": processes, "kernels": kernels, "compiles": kernels, "disk_hits": total(results, "disk_hits"),
                            "seconds": round(max(r["seconds"] for r in results), 3)}
    return figures


def wait_for_lock(place):
    for _ in range(2000):
        if place.cache.exists() and any(name.startswith(".epifuse-lock-") for name in os.listdir(place.cache)):
            return
        time.sleep(0.005)
    raise AssertionError("no lock was taken")


def stuck(long):
    """Whoever compiles a kernel stops, or dies: the others lose the time-out, or nothing."""
    figures = {}
    for what, sent, patience in (("stopped", signal.SIGSTOP, 2.0), ("killed", signal.SIGKILL, 60.0)):
        with Place() as place:
            holder = place.start("get", 0, KERNELS, ATTACK_COMPILE_MS=60000, EPIFUSE_CACHE_WAIT=patience)
            holder.stdin.close()
            wait_for_lock(place)
            holder.send_signal(sent)
            workers = [place.start("get", 0, KERNELS, ATTACK_COMPILE_MS=5, EPIFUSE_CACHE_WAIT=patience) for _ in range(8)]
            try:
                results = start_together(workers)
            finally:
                holder.kill()
                holder.wait()
            slowest = max(r["seconds"] for r in results)
            require(slowest < (2 * patience + 10 if what == "stopped" else 20), f"a {what} holder cost {slowest} s")
            # Whoever waited in vain first may have stored for the others.
            expected = range(1, len(results) + 1) if what == "stopped" else [0]
            require(total(results, "vain_waits") in expected, f"waits in vain: {results}")
            figures[what] = {"processes": len(results), "kernels": KERNELS, "wait_limit_seconds": patience,
                             "slowest_seconds": round(slowest, 3), "waits_in_vain": total(results, "vain_waits"),
                             "compiles": total(results, "compiles")}
    return figures


def filesystem(long):
    """File systems that show a rename late, have no locks, or fail to rename: right results, with more compiles."""
    figures = {}
    cases = {"renames seen after 300 ms": {"ATTACK_LATE_MS": 300}}
    for code in ("ENOLCK", "ENOSYS", "EOPNOTSUPP"):
        cases[f"no locks ({code})"] = {"ATTACK_FAIL": f"flock:{getattr(errno, code)}"}
    for code in ("EXDEV", "EIO", "ESTALE"):
        cases[f"rename fails ({code})"] = {"ATTACK_FAIL": f"renameat:{getattr(errno, code)}"}
    for code in ("ENOSPC", "EDQUOT"):
        cases[f"nothing can be written ({code})"] = {"ATTACK_FAIL": f"write:{getattr(errno, code)}", "ATTACK_COMPILES": ""}
    cases["no openat2 (old kernels)"] = {"ATTACK_FAIL": f"openat2:{errno.ENOSYS}"}
    for name, settings in cases.items():
        with Place() as place:
            workers = [place.start("get", 0, KERNELS, layer=True, ATTACK_COMPILE_MS=1, **settings) for _ in range(64 if long else 8)]
            results = start_together(workers)
            require(len({result["images"] for result in results}) == 1, f"{name}: different images")
            after = start_together([place.start("get", 0, KERNELS)])[0]
            healed = start_together([place.start("get", 0, KERNELS)])[0]
            require(healed["disk_hits"] == KERNELS, f"{name}: the next runs did not heal the cache: {healed}")
            require(after["rejected"] == 0, f"{name}: left bad entries")
            left = [entry for entry in os.listdir(place.cache) if not entry.endswith(".image")]
            require(not left, f"{name}: left over {left}")
            figures[name] = {"processes": len(workers), "kernels": KERNELS, "wrong": 0,
                             "compiles": total(results, "compiles"),
                             "seconds": round(max(r["seconds"] for r in results), 3)}
    return figures


def faults(long):
    """Every call of a miss, a store and a hit is killed, torn, cut short, or fails with each of many errors."""
    with Place() as place:
        codes = [getattr(errno, code) for code in FAULTS]
        return place.run("faults", *codes, layer=True, ATTACK_COMPILES="") | {"errors": FAULTS}


def kills(long):
    """A process that stores, loads and evicts is killed at random instants."""
    with Place() as place:
        return place.run("kills", 1000 if long else 150, 1, layer=True, ATTACK_COMPILES="")


def corrupt(long):
    """Damaged entries of every kind are noticed before they are loaded, and replaced."""
    with Place() as place:
        return place.run("corrupt", 10000 if long else 1000, 1, EPIFUSE_CACHE_LIMIT="1G", ATTACK_COMPILES="")


def bound(long):
    """Processes store more than the limit together; hits list no directory."""
    with Place() as place:
        return place.run("bound", 20 if long else 2, layer=True, ATTACK_COMPILES="")


def places(long):
    """Directories that go, that cannot be written, that others share; clocks set back."""
    figures = {}
    with Place() as place:  # removed under running processes, again and again
        workers = [place.start("get", 0, 200, ATTACK_COMPILE_MS=2) for _ in range(4)]
        time.sleep(0.3)
        for worker in workers:
            worker.stdin.close()
            worker.stdin = None
        removals = 0
        while any(worker.poll() is None for worker in workers):
            shutil.rmtree(place.cache, ignore_errors=True)
            removals += 1
            time.sleep(0.002)
        for worker in workers:
            finish(worker)
        require(removals > 5, "removed too seldom")
        figures["directory removed under running processes"] = {"processes": 4, "kernels": 200, "removals": removals, "wrong": 0}
    with Place() as place:  # as files look after the clock was set back by a year
        start_together([place.start("get", 0, KERNELS)])
        future = time.time() + 365 * 86400
        entries = sorted(place.cache.iterdir())
        for entry in entries:
            os.utime(entry, (future, future))
        (place.cache / ".epifuse-tmp-1-2-3").write_text("of a process that was killed before")
        os.utime(place.cache / ".epifuse-tmp-1-2-3", (future, future))
        again = start_together([place.start("get", 0, KERNELS + 1)])[0]
        require(again["disk_hits"] == KERNELS, f"entries of the future were not used: {again}")
        require(all(entry.stat().st_mtime < time.time() + 5 for entry in entries), "a use did not correct the time")
        require(not list(place.cache.glob(".epifuse-tmp-*")), "a temporary file of the future stays for ever")
        figures["clock set back"] = {"entries": KERNELS, "hits": again["disk_hits"], "wrong": 0}
    figures["other users"] = others() if os.geteuid() == 0 else "skipped: only root can act as another user"
    return figures


def others():
    """Read-only and shared directories, as another user meets them."""
    figures = {}
    with Place() as place:
        tools = place.folder / "tools"  # where that user can reach them
        tools.mkdir()
        for tool in (WORKER, FAKE):
            shutil.copy2(tool, tools)
        global_worker = globals()["WORKER"]
        globals()["WORKER"] = tools / WORKER.name
        settings = {"EPIFUSE_NVRTC": tools / FAKE.name, "ATTACK_COMPILES": "", "EPIFUSE_LOG": "warn"}
        try:
            place.cache.mkdir()
            os.chown(place.cache, NOBODY, NOBODY)
            place.cache.chmod(0o700)
            first = start_together([place.start("get", 0, KERNELS, user=NOBODY, **settings)])[0]
            require(first["compiles"] == KERNELS, first)
            place.cache.chmod(0o500)
            read_only = start_together([place.start("get", 0, KERNELS + 5, user=NOBODY, **settings)])[0]
            require(read_only["disk_hits"] == KERNELS and read_only["compiles"] == 5, f"read-only: {read_only}")
            require(read_only["log"].count("warning") == 1, f"not one warning: {read_only['log']}")
            figures["read-only"] = {"hits": KERNELS, "compiled": 5, "warnings": 1}

            foreign = start_together([place.start("get", 0, KERNELS, **settings)])[0]
            require(foreign["disk_hits"] == 0 and foreign["compiles"] == KERNELS, f"another user's directory was used: {foreign}")
            require(foreign["log"].count("warning") == 1 and "belongs to another user" in foreign["log"], foreign["log"])
            figures["another user's directory"] = {"hits": 0, "compiled": KERNELS, "warnings": 1}

            shared = place.folder / "shared"  # root fills it, the other user reads it and fills a cache of their own
            shared.mkdir(mode=0o755)
            settings["EPIFUSE_CACHE_SHARED_DIR"] = shared
            own = place.folder / "own"
            own.mkdir()
            os.chown(own, NOBODY, NOBODY)
            start_together([place.start("get", 0, KERNELS, **settings | {"EPIFUSE_CACHE_DIR": place.folder / "roots"})])
            require(len(list(shared.iterdir())) == KERNELS, "the owner did not fill the shared cache")
            user = settings | {"EPIFUSE_CACHE_DIR": own / "cache"}
            reader = start_together([place.start("get", 0, KERNELS + 5, user=NOBODY, **user)])[0]
            require(reader["disk_hits"] == KERNELS and reader["compiles"] == 5 and not reader["log"], f"shared: {reader}")
            require(len(list((own / "cache").iterdir())) == 5 and len(list(shared.iterdir())) == KERNELS, "stored in the wrong place")
            figures["shared by its owner"] = {"hits": KERNELS, "compiled": 5, "warnings": 0}
            shared.chmod(0o777)
            open_to_all = start_together([place.start("get", 0, KERNELS, user=NOBODY, **user)])[0]
            require(open_to_all["disk_hits"] == 0 and open_to_all["log"].count("warning") == 1, f"{open_to_all}")
            figures["shared, but writable by all"] = {"hits": 0, "compiled": KERNELS, "warnings": 1}
        finally:
            globals()["WORKER"] = global_worker
    return figures


def memory(long):
    """Launches, engines and chains: memory of host and devices ends where it began. Nothing runs, the driver and NVRTC are fakes."""
    counts = (1_000_000, 10_000, 10_000) if long else (100_000, 1000, 1000)
    done = subprocess.run([BUILD / "epifuse_attack_memory", *map(str, counts)], env=os.environ | {"EPIFUSE_NVRTC": str(FAKE)},
                          capture_output=True, text=True, timeout=280)
    require(done.returncode == 0, done.stderr)
    return json.loads(done.stdout)


def lives(long):
    """Faults of driver, NVRTC and application, forks, exits with static objects, and threads with several engines of two devices."""
    builds = {"no sanitizer": BUILD}
    if "ATTACK_TSAN_BUILD" in os.environ:
        builds["thread sanitizer"] = Path(os.environ["ATTACK_TSAN_BUILD"]).resolve()
    figures = {}
    for name, build in builds.items():
        with tempfile.TemporaryDirectory() as folder:
            found = Path(folder) / "tests.json"
            done = subprocess.run([build / "process_test", f"--gtest_output=json:{found}"], capture_output=True, text=True, timeout=280,
                                  env=os.environ | {"ATTACK_SECONDS": "60" if long else "2"})
            require(done.returncode == 0, f"{name}: {done.stdout}{done.stderr}")
            tests = json.loads(found.read_text())
        threads = next(suite for suite in tests["testsuites"] if suite["name"] == "Threads")["testsuite"][0]
        figures[name] = {"tests": tests["tests"], "failures": tests["failures"],
                         "threads": {key: int(threads[key]) for key in ("threads", "devices", "shared_engines", "launches", "engines_replaced")}
                         | {"seconds": float(threads["time"].rstrip("s"))}}
    return figures


def numbers(test):
    """What a GoogleTest recorded, but for what GoogleTest itself says of it."""
    own = {"name", "file", "line", "status", "result", "timestamp", "time", "classname", "failures"}
    return {key: float(value) if "." in value else int(value) for key, value in test.items() if key not in own}


def one_gpu_test(program, name, long):
    """Runs one test in a process of its own; its figures, with what was wrong under `failed`."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "test.json"
        env = os.environ | ({"ATTACK_LONG": "1"} if long else {})
        try:
            done = subprocess.run([program, f"--gtest_filter={name}", f"--gtest_output=json:{found}"], capture_output=True, text=True,
                                  timeout=280, env=env)
        except subprocess.TimeoutExpired:
            return {"failed": "it hangs"}
        if not found.exists():
            return {"failed": f"ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"}
        test = json.loads(found.read_text())["testsuites"][0]["testsuite"][0]
    if test["result"] == "SKIPPED":
        print(done.stdout)
        sys.exit(SKIPPED)
    figures = numbers(test) | {"test_seconds": float(test["time"].rstrip("s"))}
    wrong = [failure["failure"] for failure in test.get("failures", [])]
    return figures | ({"failed": wrong, "stderr": done.stderr[-2000:]} if wrong or done.returncode else {})


def gpu(long):
    """On a GPU: launches, engines and chains, threads, forks, faults, memory that runs out, contexts and static objects that end."""
    program = BUILD.parent / "process_gpu_test"
    names, suite = [], ""
    for line in subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("  "):
            names.append(suite + line.strip())
        elif line.endswith("."):
            suite = line
    return {name: one_gpu_test(program, name, long) for name in names}


GROUPS = {"cache": (race, stuck, filesystem, faults, kills, corrupt, bound, places), "process": (memory, lives), "process-gpu": (gpu,)}
ATTACKS = {attack.__name__: attack for attacks in GROUPS.values() for attack in attacks}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ATTACKS))
    parser.add_argument("--long", action="store_true", help="the long form")
    parser.add_argument("--report", type=Path, help="where the figures go")
    options = parser.parse_args()
    records = []
    groups = {group: [attack.__name__ for attack in attacks] for group, attacks in GROUPS.items()}
    failed = False
    for name in [name for given in options.names or groups for name in groups.get(given, [given])]:
        begin = time.monotonic()
        figures = ATTACKS[name](options.long)
        figures.pop("log", None)
        records.append({"attack": name, "what": ATTACKS[name].__doc__, **figures, "attack_seconds": round(time.monotonic() - begin, 1)})
        print(json.dumps(records[-1], indent=1), flush=True)
        failed |= any("failed" in value for value in figures.values() if isinstance(value, dict))
    if options.report:
        settings = {"kernel": platform.release(), "cores": os.cpu_count(), "form": "long" if options.long else "slice"}
        command = " ".join(["tests/attack/attack.py", *sys.argv[1:]])
        on_gpu = any(record["attack"] == "gpu" for record in records)
        device, driver = (record_file.asked_of_gpu(what) if on_gpu else None for what in ("name", "driver_version"))
        record_file.write(options.report, record_file.made("attack", device=device, driver=driver, command=command, settings=settings, records=records))
    sys.exit(failed)


if __name__ == "__main__":
    main()
