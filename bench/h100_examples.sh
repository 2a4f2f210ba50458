#!/usr/bin/env bash
# Runs the eight examples in all their variants on the GPU at hand and collects what they measured in one JSON document.
# usage: bench/h100_examples.sh [BINARIES [OUTPUT]]   (build/examples, BINARIES/results)
# BINARIES may have been built on another machine; EPIFUSE_COMMIT says from which commit, where no git can.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
BINARIES=${1:-build/examples}
OUTPUT=${2:-$BINARIES/results}
SIZE=${EPIFUSE_EXAMPLE_SIZE:-full}

if [[ $(nvidia-smi -L 2>/dev/null) != GPU* ]]; then
  echo 'h100_examples.sh: nvidia-smi finds no GPU here; the examples need one' >&2
  # Among the other benchmarks of `./dev bench` that is no failure; where it was asked for with arguments it is.
  exit $(($# > 0))
fi
compgen -G "$BINARIES/example_*" >/dev/null ||
  { echo "h100_examples.sh: no examples in $BINARIES; build them, or name their folder" >&2; exit 1; }

# The libraries may lie elsewhere than on the machine that linked the examples: in a toolkit, with the distribution, or
# in NVIDIA's Python wheels.
find_library() {
  local soname=$1 folder
  [[ $(ldconfig -p 2>/dev/null) == *"$soname "* ]] && return
  for folder in ${LD_LIBRARY_PATH//:/ } /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /usr/lib/x86_64-linux-gnu \
    .venv/lib/python3*/site-packages/nvidia/*/lib /opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib \
    /usr/local/lib/python3*/*-packages/nvidia/*/lib; do
    [[ -e $folder/$soname ]] || continue
    folder=$(cd "$folder" && pwd)
    [[ :${LD_LIBRARY_PATH:-}: == *:$folder:* ]] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
    echo "$soname: $folder"
    return
  done
  echo "$soname: not found" >&2
}
sonames() {
  local binary
  for binary in "$BINARIES"/example_*; do readelf -d "$binary" 2>/dev/null || true; done |
    sed -n 's/.*NEEDED.*\[\(libcu.*\)\]/\1/p'
}
for soname in $( (sonames; echo libcudnn.so.9; echo libcublasLt.so.13; echo libnvrtc.so.13) | sort -u); do
  find_library "$soname"
done

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv
mkdir -p "$OUTPUT"
records=$OUTPUT/h100-examples.jsonl
: >"$records"
failed=0
for example in "$BINARIES"/example_*; do
  [[ -x $example && ! -d $example ]] || continue
  "$example" --size "$SIZE" --json "$records" || failed=1
done
[[ -s $records ]] || { echo 'h100_examples.sh: no example ran' >&2; exit 1; }

commit=${EPIFUSE_COMMIT:-$(git rev-parse --verify --quiet HEAD 2>/dev/null || echo unknown)}
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0)
python3 bench/examples_table.py collect "$records" "$OUTPUT/h100-examples.json" --commit "$commit" --driver "$driver"
python3 bench/examples_table.py print "$OUTPUT/h100-examples.json"
exit $failed
