#!/usr/bin/env bash
# Everything about the Python package that needs a GPU, in one run of under 300 s on an H100: python/gpu.sh WHEEL OUT.
# Needs a Python with PyTorch and pytest (CuPy and JAX where they are); nothing is downloaded or compiled but kernels. Writes into OUT, eight files at most:
#   tests.txt  tutorial.txt  tutorial.json  overhead.txt  overhead.json  kernelbench.txt  kernelbench.json  kernelbench.md
# Exit 1 if a test or a result is wrong.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -eq 2 ]] || { echo "usage: python/gpu.sh WHEEL OUT" >&2; exit 2; }
wheel=$1 out=$2 python=${EPIFUSE_PYTHON:-python3}
budget=${EPIFUSE_GPU_SECONDS:-290}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
mkdir -p "$out"
begin=$SECONDS failed=()
left() { echo $((budget - (SECONDS - begin))); }
step() { echo "== $1 ($((SECONDS - begin)) s)"; }

"$python" -m zipfile -e "$wheel" "$site/epifuse" || exit 1
export PYTHONPATH=$site/epifuse${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
export EPIFUSE_CACHE_DIR=$site/kernels TORCHINDUCTOR_CACHE_DIR=$site/inductor
"$python" - <<'EOT' || exit 1
import epifuse
report = epifuse.doctor()
print("epifuse", report["version"], "NVRTC", report["nvrtc"], "driver", report["driver"], [device["name"] for device in report["devices"]], *report["problems"], sep="\n  ")
raise SystemExit(not report["devices"])
EOT

step "call overhead, with nothing beside it"
timeout 60 "$python" bench/python_overhead.py --output "$out/overhead.json" >"$out/overhead.txt" 2>&1 || failed+=(overhead)
cat "$out/overhead.txt" | tail -n 12

step "tests, while torch.compile's own kernels are compiled for the table"
( timeout 120 "$python" bench/kernelbench.py --rebuilt --folder "$site/level2" --warm 6 --warm-only >"$site/warm.txt" 2>&1 ) &
warm=$!
timeout 120 "$python" -m pytest -q --no-header -p no:cacheprovider -rs python/tests/gpu >"$out/tests.txt" 2>&1 || failed+=(tests)
tail -n 8 "$out/tests.txt" | cut -c1-200
wait "$warm"
tail -n 3 "$site/warm.txt" | cut -c1-200

step "tutorial"
timeout 60 "$python" python/examples/tutorial.py --output "$out/tutorial.json" >"$out/tutorial.txt" 2>&1 || failed+=(tutorial)
tail -n 14 "$out/tutorial.txt" | cut -c1-160

step "the odd problems of KernelBench level 2, rebuilt"
timeout "$(left)" "$python" bench/kernelbench.py --rebuilt --folder "$site/level2" --seconds 0.2 --budget $(($(left) - 15)) \
  --output "$out/kernelbench.json" --markdown "$out/kernelbench.md" >"$out/kernelbench.txt" 2>&1 || failed+=(kernelbench)
tail -n 6 "$out/kernelbench.txt" | cut -c1-400
if grep -q '"right": false' "$out/kernelbench.json"; then failed+=("kernelbench results"); fi

step "done"
[[ ${#failed[@]} == 0 ]] || { echo "failed: ${failed[*]}"; exit 1; }
