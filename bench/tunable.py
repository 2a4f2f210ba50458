#!/usr/bin/env python3
"""A libepifuse_bench.so whose policy (src/plan/policy.hpp) can be set, for bench/settings.py.

    bench/tunable.py OUTPUT.so [--tree FOLDER]      # default: a git worktree of HEAD under build/tunable, built in release

The library itself has a constant policy. So a copy of the tree is changed, not the tree: kPolicy becomes a variable, and the
bridge gets epifuse_bench_policy(name, value). Edit the copy for more experiments, and call
this again with --tree: it changes and builds what is there.
"""
import argparse
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = "\n// Written by bench/tunable.py.\n"
SETTER = """#include "../src/plan/policy.hpp"
/// 0, or -1 where the policy has no number of that name. Call it before anything is planned.
EPIFUSE_BENCH_API int epifuse_bench_policy(const char* key, long long value) {{
  const std::string name = key;
  auto& policy = epifuse::plan::kPolicy;
{}  return -1;
}}
"""
NUMBER = re.compile(r"^\s+(?:int|bool|std::u?int64_t) (\w+)\s*=", re.MULTILINE)
ARRAY = re.compile(r"^\s+(\w+) (\w+)\[(\d+)\]\s*=", re.MULTILINE)


def numbers_of(text, name):
    body = text[text.index(f"struct {name} {{"):]
    return NUMBER.findall(body[:body.index("\n};")])


def fields(text):
    """name -> C++ expression: numbers, and those of structs in arrays (resident[1].prefetch_bytes as resident1_prefetch_bytes)."""
    body = text[text.index("struct Policy {"):]
    found = {name: name for name in numbers_of(text, "Policy")}
    for kind, name, count in ARRAY.findall(body):
        for i in range(int(count)):
            found |= {f"{name}{i}_{number}": f"{name}[{i}].{number}" for number in numbers_of(text, kind)}
    return found


def change(tree):
    policy = tree / "src/plan/policy.hpp"
    text = policy.read_text().replace("inline constexpr Policy kPolicy;", "inline Policy kPolicy;")
    policy.write_text(text)
    lines = "".join(f'  if (name == "{name}") return policy.{place} = static_cast<decltype(policy.{place})>(value), 0;\n'
                    for name, place in fields(text).items())
    bridge = tree / "bench/bridge.cpp"
    bridge.write_text(bridge.read_text().split(MARK)[0] + MARK + SETTER.format(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "build/tunable")
    options = parser.parse_args()
    if not options.tree.exists():
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", options.tree, "HEAD"], check=True)
    change(options.tree)
    subprocess.run(["cmake", "--preset", "release", "-DEPIFUSE_BUILD_TESTS=OFF"], cwd=options.tree, check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", "build", "bench/libepifuse_bench.so"], cwd=options.tree, check=True)
    shutil.copy(options.tree / "build/bench/libepifuse_bench.so", options.output)
    subprocess.run(["strip", options.output], check=True)


if __name__ == "__main__":
    main()
