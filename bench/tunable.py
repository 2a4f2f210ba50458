#!/usr/bin/env python3
"""A libepifuse_bench.so whose policy (src/plan/policy.def) can be set, for bench/settings.py.

    bench/tunable.py OUTPUT.so [--tree FOLDER]      # default: a git worktree of HEAD under build/tunable, built in release

The library itself has a constant policy. So a copy of the tree is changed, not the tree: kPolicy becomes a variable, and the
bridge gets epifuse_bench_policy(name, value). Edit the copy for more experiments, and call this again with --tree: it changes and
builds what is there.
"""
import argparse
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = "\n// Written by bench/tunable.py.\n"
SETTER = """#include "plan/policy.hpp"
/// 0, or -1 where the policy has no number of that name. Call it before anything is planned.
EPIFUSE_BENCH_API int epifuse_bench_policy(const char* key, long long value) {{
  const std::string name = key;
  auto& policy = epifuse::plan::kPolicy;
{}  return -1;
}}
"""
INCLUDE = "target_include_directories(epifuse_bench_bridge PRIVATE ${PROJECT_SOURCE_DIR}/src)\n"
ENTRY = re.compile(r"^EPIFUSE_POLICY\((\w+),", re.MULTILINE)


def change(tree):
    policy = tree / "src/plan/policy.hpp"
    text = policy.read_text().replace("inline constexpr Policy kPolicy;", "inline Policy kPolicy;")
    policy.write_text(text)
    names = ENTRY.findall((tree / "src/plan/policy.def").read_text())
    lines = "".join(f'  if (name == "{name}") return policy.{name} = static_cast<int>(value), 0;\n' for name in names)
    bridge = tree / "bench/bridge.cpp"
    bridge.write_text(bridge.read_text().split(MARK)[0] + MARK + SETTER.format(lines))
    build = tree / "bench/CMakeLists.txt"
    build.write_text(build.read_text().replace(INCLUDE, "") + INCLUDE)


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
