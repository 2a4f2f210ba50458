#!/usr/bin/env bash
# What needs a GPU of the Python package: python/gpu.sh WHEEL OUT [STEP...], the steps being overhead, tests, tutorial and kernelbench (all without one).
# Needs a Python with PyTorch and pytest (CuPy and JAX where they are); nothing is downloaded or compiled but kernels. Writes into OUT, eight files at most:
#   tests.txt  tutorial.txt  tutorial.json  overhead.txt  overhead.json  kernelbench.txt  kernelbench.json  kernelbench.md
# EPIFUSE_GPU_SECONDS (290) bounds all of it; EPIFUSE_PROBLEMS (1,17,91) and EPIFUSE_DTYPES (f16) choose of the table. Exit 1 if a test or a result is wrong.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -ge 2 ]] || { echo "usage: python/gpu.sh WHEEL OUT [overhead|tests|tutorial|kernelbench]..." >&2; exit 2; }
wheel=$1 out=$2 python=${EPIFUSE_PYTHON:-python3}
shift 2
steps=" ${*:-overhead tests tutorial kernelbench} "
budget=${EPIFUSE_GPU_SECONDS:-290}
chosen=(--dtypes "${EPIFUSE_DTYPES:-f32,f16}")
[[ -z ${EPIFUSE_PROBLEMS:-} ]] || chosen+=(--problems "$EPIFUSE_PROBLEMS")
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
mkdir -p "$out"
begin=$SECONDS failed=()
left() { echo $((budget - (SECONDS - begin))); }
step() { echo "== $1 ($((SECONDS - begin)) s)"; }
wants() { [[ $steps == *" $1 "* ]]; }

"$python" -m zipfile -e "$wheel" "$site/epifuse" || exit 1
export PYTHONPATH=$site/epifuse${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
export EPIFUSE_CACHE_DIR=$site/kernels TORCHINDUCTOR_CACHE_DIR=$site/inductor
"$python" - <<'EOT' || exit 1
import epifuse
report = epifuse.doctor()
print("epifuse", report["version"], "NVRTC", report["nvrtc"], "driver", report["driver"], [device["name"] for device in report["devices"]], *report["problems"], sep="\n  ")
raise SystemExit(not report["devices"])
EOT

if wants overhead; then
  step "call overhead, with nothing beside it"
  timeout 60 "$python" bench/python_overhead.py --output "$out/overhead.json" >"$out/overhead.txt" 2>&1 || failed+=(overhead)
  tail -n 14 "$out/overhead.txt"
fi

warm=
if wants kernelbench; then
  step "kernels of the table are compiled, beside the tests"
  (timeout "$(left)" "$python" bench/kernelbench.py --rebuilt --folder "$site/level2" "${chosen[@]}" --warm 8 --warm-only >"$site/warm.txt" 2>&1) &
  warm=$!
fi

if wants tests; then
  step "tests"
  timeout 150 "$python" -m pytest -q --no-header -p no:cacheprovider -rs python/tests/gpu >"$out/tests.txt" 2>&1 || failed+=(tests)
  tail -n 8 "$out/tests.txt" | cut -c1-200
fi
[[ -z $warm ]] || { wait "$warm"; tail -n 3 "$site/warm.txt" | cut -c1-200; }

if wants tutorial; then
  step "tutorial"
  timeout 60 "$python" python/examples/tutorial.py --output "$out/tutorial.json" >"$out/tutorial.txt" 2>&1 || failed+=(tutorial)
  tail -n 14 "$out/tutorial.txt" | cut -c1-160
fi

if wants kernelbench; then
  step "the odd problems of KernelBench level 2, rebuilt"
  timeout "$(left)" "$python" bench/kernelbench.py --rebuilt --folder "$site/level2" "${chosen[@]}" --seconds 0.2 --budget $(($(left) - 15)) \
    --output "$out/kernelbench.json" --markdown "$out/kernelbench.md" >"$out/kernelbench.txt" 2>&1 || failed+=(kernelbench)
  tail -n 6 "$out/kernelbench.txt" | cut -c1-400
  if grep -q '"right": false' "$out/kernelbench.json"; then failed+=("kernelbench results"); fi
fi

step "done"
[[ ${#failed[@]} == 0 ]] || { echo "failed: ${failed[*]}"; exit 1; }
