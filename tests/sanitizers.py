"""The report of ./dev sanitize: what ctest said of a build under sanitizers, from its JUnit files, put into bench/results/sanitizers.json.

    sanitizers.py NAME BUILD REPORT JUNIT…      NAME: address (with undefined and leak) or thread

Of a test that stands in several files, as after `ctest --rerun-failed`, the last one counts."""

import collections
import datetime
import json
import re
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import record  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
SANITIZERS = {"address": ["address", "leak", "undefined"], "thread": ["thread"]}
FINDING = re.compile(r"ERROR: (?:Address|Leak|Thread)Sanitizer|WARNING: ThreadSanitizer|runtime error:")
# Why tests skip, by what they print.
REASONS = ("no GPU", "needs two GPUs", "no NVRTC", "not installed", "no /dev/full", "has a GPU")


def output(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def reason(text):
    return next((words for words in REASONS if words in text), " ".join(text.split())[-80:] or "it does not say")


def compiler(build):
    path = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", (build / "CMakeCache.txt").read_text(encoding="utf-8"), re.M)[1]
    return output(path, "--version").splitlines()[0]


def summary(files, build):
    cases = {case.get("name"): case for file in files for case in xml.etree.ElementTree.parse(file).iter("testcase")}.values()
    skipped, failed, findings = collections.Counter(), [], 0
    for case in cases:
        text = case.findtext("system-out") or ""
        findings += len(FINDING.findall(text))
        if case.get("status") == "fail":
            failed.append(case.get("name"))
        elif case.get("status") != "run":
            skipped[reason(text)] += 1
    return {"date": datetime.date.today().isoformat(), "commit": output("git", "rev-parse", "--short", "HEAD"), "compiler": compiler(build),
            "tests": len(cases), "passed": len(cases) - len(failed) - sum(skipped.values()), "skipped": dict(skipped), "failed": failed,
            "findings": findings, "seconds": round(sum(float(case.get("time", 0)) for case in cases))}


def main():
    name, build, report, files = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]
    found = {"build": name, "sanitizers": SANITIZERS[name]} | summary(files, build)
    others = [one for one in record.read(report)["records"] if one["build"] != name] if report.exists() else []
    # Each build says of itself when it was tested, and of which commit.
    record.write(report, record.made("sanitizers", device=None, command="./dev sanitize", records=[*others, found]) | {"commit": None, "date": None})
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
