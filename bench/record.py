"""The one format of the benchmarks' records: made, checked, read and written here (record.hpp writes the same from
C++). For every script that measures, for tables.py, and for the reports of tests/.

A record file is one JSON object: what was measured ("suite"), where ("device", "driver"), of which "commit", when
("date"), with which "versions", by which "command", what all its measurements share ("settings"), and the measurements
("records"). What is not known is null. A measurement of another run than the rest has a "commit" of its own."""

import contextlib
import datetime
import functools
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
TEXT = (str, type(None))
FIELDS = {
    "suite": (str,),
    "device": TEXT,
    "driver": TEXT,
    "commit": TEXT,
    "date": TEXT,
    "versions": (dict,),
    "command": TEXT,
    "settings": (dict,),
    "records": (list,),
}  # in the order of the file
COMMIT, DATE = re.compile(r"[0-9a-f]{7,40}"), re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d))?")
SAME_RUN = ("suite", "device", "driver", "versions", "commit")  # what parts of one run agree on


# ---- devices, as the names of record files say them

STUB = "stub"  # the driver that does nothing, which record.hpp calls "none (stub driver)"


def device_of(name):
    """h100 of "NVIDIA H100 80GB HBM3", geforce-rtx-4090 of "NVIDIA GeForce RTX 4090": the first word of letters and
    digits, else all words but the vendor's."""
    if name.startswith("none"):
        return STUB
    model = re.search(r"\b[A-Za-z]+\d+[A-Za-z]*\b", name)
    words = re.findall(r"[A-Za-z0-9]+", model[0] if model else name)
    return "-".join(word.lower() for word in words if word != "NVIDIA")


# ---- what a run knows of itself


@functools.cache
def asked_of_gpu(what):
    """What nvidia-smi says of the first GPU; None where it says nothing."""
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", "-i", "0"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() or None
    return None


def commit():
    """EPIFUSE_COMMIT, for where no git can say it."""
    given = os.environ.get("EPIFUSE_COMMIT")
    if given:
        return given
    with contextlib.suppress(OSError):
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
        return found.stdout.strip() or None
    return None


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def made(suite, *, device, driver=None, versions=(), command=None, settings=(), records=()):
    """A document of this run, now."""
    return {
        "suite": suite,
        "device": device,
        "driver": driver,
        "commit": commit(),
        "date": now(),
        "versions": dict(versions),
        "command": command,
        "settings": dict(settings),
        "records": list(records),
    }


# ---- files


def problems(document):
    """What of the format a document does not keep, a sentence each."""
    if not isinstance(document, dict):
        return [f"expected an object with {', '.join(FIELDS)}, found {type(document).__name__}"]
    found = [f"no field '{name}'" for name in FIELDS if name not in document]
    found += [f"a field '{name}', which the format has not" for name in document if name not in FIELDS]
    for name, kinds in FIELDS.items():
        if name in document and not isinstance(document[name], kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            found.append(f"'{name}' is {type(document[name]).__name__}, expected {expected}")
    if found:
        return found
    found = [
        f"version '{name}' is {value!r}, expected text or null"
        for name, value in document["versions"].items()
        if not isinstance(value, TEXT)
    ]
    found += problems_of_names("", document)
    for number, one in enumerate(document["records"]):
        if not isinstance(one, dict):
            found.append(f"record {number} is {type(one).__name__}, expected dict")
            continue
        found += problems_of_names(f" of record {number}", one)
        if "running" in one:
            found.append(f"record {number} was running when the file was written")
    return found if document["records"] else [*found, "no records"]


def problems_of_names(where, one):
    return [
        f"'{name}'{where} is '{one[name]}'"
        for name, form in (("commit", COMMIT), ("date", DATE))
        if one.get(name) is not None and not form.fullmatch(one[name])
    ]


def read(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def write(path, document):
    """In one step: whoever reads meanwhile finds the old file or the new one."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    draft.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(path)


def differences(one, other):
    """The fields in which documents of one run would agree."""
    return [name for name in SAME_RUN if one[name] != other[name]]


def merged(parts, order=None):
    """One document of the parts of one run, such as `--part 1/2` and `2/2`; SystemExit where they are of several."""
    first = parts[0]
    for part in parts[1:]:
        if differences(first, part):
            raise SystemExit(f"the parts differ in {', '.join(differences(first, part))}; they must be of one run")
    records = [record for part in parts for record in part["records"]]
    return first | {
        "command": "; ".join(part["command"] for part in parts),
        "records": sorted(records, key=order) if order else records,
    }
