#!/usr/bin/env bash
# The long form of all attacks; the figures go to attack-cache.json and attack-process.json in bench/results, or where the second argument
# says. The threads are let loose a second time in a build for the thread sanitizer.
#   tests/attack/report.sh [BUILD] [FOLDER] [TSAN_BUILD]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build}
reports=$(realpath -m "${2:-bench/results}")
tsan=${3:-build-tsan}
[[ -f $build/build.ninja ]] || cmake --preset release -B "$build"
[[ -f $tsan/build.ninja ]] || cmake --preset tsan -B "$tsan"
ninja -C "$build" epifuse_attack_worker epifuse_fake_nvrtc epifuse_interpose epifuse_attack_memory process_test
ninja -C "$tsan" process_test
export ATTACK_BUILD=$build/tests/attack ATTACK_TSAN_BUILD=$tsan/tests/attack
python3 tests/attack/attack.py --long --report "$reports/attack-process.json" process
python3 tests/attack/attack.py --long --report "$reports/attack-cache.json" cache
