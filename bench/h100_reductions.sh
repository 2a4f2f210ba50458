#!/usr/bin/env bash
# Chains with reductions on the GPU at hand: what the benchmark compiles is compiled while tests and checkers run; then it has the machine to itself.
#   bench/h100_reductions.sh OUT [ARGS OF reductions.py]      writes h100-reductions.json, gpu-tests.txt and gpu-checkers.txt to OUT
# Nothing is built: EPIFUSE_BUILD (build) holds bench/libepifuse_bench.so, tests/gpu_test and tools/epifuse, of here or of another machine; PYTHON
# (python3) has PyTorch. EPIFUSE_TESTS (Cases.*) and EPIFUSE_CHECKS (all) say which, EPIFUSE_COMMIT from which commit, where no git can.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
if [[ $# -lt 1 ]]; then # as among the other scripts of ./dev bench
  sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 0
fi
out=$(realpath -m "$1") build=${EPIFUSE_BUILD:-build} python=${PYTHON:-python3} filter=${EPIFUSE_TESTS:-Cases.*}
shift
for file in bench/libepifuse_bench.so tests/gpu_test tools/epifuse; do
  [[ -x $build/$file ]] || { echo "h100_reductions.sh: no $build/$file: ./dev build, or name its folder in EPIFUSE_BUILD" >&2; exit 1; }
done
if [[ $(nvidia-smi -L 2>/dev/null) != GPU* ]]; then
  echo 'h100_reductions.sh: nvidia-smi finds no GPU here' >&2
  exit 1
fi
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
EPIFUSE_COMMIT=${EPIFUSE_COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
EPIFUSE_BENCH_LIB=$(realpath "$build/bench/libepifuse_bench.so")
export EPIFUSE_COMMIT EPIFUSE_BENCH_LIB PYTHONDONTWRITEBYTECODE=1 EPIFUSE_CACHE_DIR=$scratch/epifuse TORCHINDUCTOR_CACHE_DIR=$scratch/inductor \
  TRITON_CACHE_DIR=$scratch/triton

half=$((($(nproc) + 1) / 2)) shards=3
for ((k = 0; k < half; ++k)); do
  TORCHINDUCTOR_COMPILE_THREADS=2 "$python" bench/reductions.py "$@" --warm-part "$k/$half" --output "$scratch/warm.json" >"$scratch/warm.$k" 2>&1 &
done
tests=()
for ((k = 0; k < shards; ++k)); do
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$k "$build/tests/gpu_test" --gtest_filter="$filter" >"$scratch/tests.$k" 2>&1 &
  tests+=($!)
done
EPIFUSE_JOBS=$shards bench/h100_checkers.sh "$build/tools/epifuse" "$out" "${EPIFUSE_CHECKS:-}" &
checkers=$!

failed=0
for ((k = 0; k < shards; ++k)); do wait "${tests[k]}" || failed=1; done
{
  echo "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1), commit $EPIFUSE_COMMIT: gpu_test --gtest_filter=$filter, beside what was compiled for bench/reductions.py"
  for ((k = 0; k < shards; ++k)); do
    echo "== shard $((k + 1)) of $shards"
    grep -E '^\[ +(OK|FAILED|PASSED) +\]|^\[=+\]|seed|Failure' "$scratch/tests.$k"
  done
} | tee "$out/gpu-tests.txt"
wait "$checkers" || failed=1
wait
echo "== tests, checkers and all that is compiled ahead: $SECONDS s"
"$python" bench/reductions.py "$@" --output "$out/h100-reductions.json" || failed=1
exit $failed
