"""EpiFuse's plans as data for the benchmarks' records: the lines of their text, and what bounds the threads in flight."""
import os
import re
import subprocess
import sys

import sass

# What schedules are called in records from before they had their names.
TODAY = {
    "rows": "by_row",
    "crossed": "tiled_2d",
    "turned": "transpose",
    "team": "resident",
    "loop": "looped",
    "kept": "split_resident",
}


def plan_lines(text):
    """The lines of a printed plan that are not operands: key -> text."""
    matches = (re.match(r"(\w[\w ]*?)  +(.*)", line) for line in text.splitlines())
    return {match[1]: match[2] for match in matches if match}


def describe_plan(tail, results, inputs, architecture, bandwidth):
    plan = tail.plan(results, inputs, architecture, bandwidth)
    plan["lines"] = plan_lines(plan["text"])
    return plan


def dumped(tool, chain, operands, architecture, *arguments):
    """What `epifuse dump` prints of a chain. `operands`: name -> (type, shape). SASS needs the nvdisasm that sass.py finds."""
    given = [f"{name}={dtype}[{','.join(map(str, shape))}]" for name, (dtype, shape) in operands.items()]
    command = [tool, "dump", chain, *given, "--arch", architecture, *arguments]
    found = sass.disassembler()
    folders = [os.environ.get("PATH", ""), *([os.path.dirname(found)] if found else [])]
    environment = os.environ | {"PATH": os.pathsep.join(folders)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def moved_bytes(plan):
    """By the report of `epifuse dump --json`. What blocks leave for each other is written once and read once."""
    return plan["bytes_read"] + plan["bytes_read_again"] + plan["bytes_written"] + 2 * plan["workspace_bytes"]


def limit_of(plan):
    """Blocks in all and in flight, and what bounds those: registers, shared memory, threads."""
    parts = [f"{plan['blocks']} blocks of {plan['threads']} threads"]
    if plan["registers"]:
        parts.append(f"{plan['registers']} registers")
    if plan["spilled_bytes"]:
        parts.append(f"{plan['spilled_bytes']} bytes spilled")
    flight = re.match(r"(\d+) blocks? .*\(limited by (.*)\), (.*) requested", plan["lines"].get("in flight", ""))
    if flight:
        parts.append(f"{flight[1]} in flight per SM with {flight[3]} requested, bound by {flight[2]}")
    return ", ".join(parts)
