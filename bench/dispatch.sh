#!/usr/bin/env bash
# What a launch, its parts, and a cold start cost the CPU: on the GPU at hand, else against a stub driver.
# usage: bench/dispatch.sh [BINARIES [OUTPUT]]   (build/bench, bench/results)
# BINARIES may have been built on another machine; EPIFUSE_COMMIT says from which commit, where no git can.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
binaries=${1:-build/bench}
output=${2:-bench/results}
: "${EPIFUSE_COMMIT:=$(git rev-parse --short HEAD 2>/dev/null || true)}"
export EPIFUSE_COMMIT
device=stub
[[ $(nvidia-smi -L 2>/dev/null) == GPU* ]] && device=cuda
mkdir -p "$output"
for name in dispatch driver_calls cold_start; do
  "$binaries/epifuse_bench_$name" --device "$device" --json "$output/${name//_/-}-$device.json"
done
