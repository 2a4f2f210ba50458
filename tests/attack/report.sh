#!/usr/bin/env bash
# The long form of all attacks on the cache; its figures go to bench/results/attack-cache.json, or where the second argument says.
#   tests/attack/report.sh [BUILD] [FILE]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build}
report=$(realpath -m "${2:-bench/results/attack-cache.json}")
[[ -f $build/build.ninja ]] || cmake --preset release -B "$build"
ninja -C "$build" epifuse_attack_worker epifuse_fake_nvrtc epifuse_interpose
ATTACK_BUILD=$build/tests/attack exec python3 tests/attack/attack.py --long --report "$report"
