#!/usr/bin/env bash
# The pointwise benchmark on the GPU at hand: JSON, table and picture in one command.
# usage: bench/h100_pointwise.sh [ARGS OF pointwise.py]   (writes pointwise.json, .md, .svg and .png to $OUT, else to build/results)
# Needs a python3 with PyTorch; takes what it finds of CuPy and matplotlib.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${OUT:-build/results}

missing=
[[ $(nvidia-smi -L 2>/dev/null) == GPU* ]] || missing='nvidia-smi finds no GPU here'
[[ -n $missing ]] || python3 -c 'import torch, triton' 2>/dev/null || missing='python3 has no PyTorch with Triton (python3 -m pip install torch)'
if [[ -n $missing ]]; then
  echo "h100_pointwise.sh: $missing" >&2
  exit $(($# > 0)) # among the other benchmarks of `./dev bench` that is no failure
fi

mkdir -p "$out"
code=0
python3 bench/pointwise.py --warm "$((($(nproc) + 1) / 2))" --output "$out/pointwise.json" "$@" || code=$?
[[ -s $out/pointwise.json ]] || exit "$code"
python3 bench/pointwise_table.py print "$out/pointwise.json" | tee "$out/pointwise.md"
for kind in svg png; do
  python3 bench/pointwise_table.py plot "$out/pointwise.json" "$out/pointwise.$kind" ||
    echo "h100_pointwise.sh: no picture; it needs matplotlib (python3 -m pip install matplotlib)" >&2
done
exit "$code"
