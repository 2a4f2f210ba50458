#!/usr/bin/env bash
# Every emitted kernel in docs/internals/kernels compiles as it stands with nvcc. usage: nvcc.sh NVCC SOURCE_DIR
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for kernel in "$2"/docs/internals/kernels/*.cu; do
  "$1" --fmad=false -arch=sm_90 --cubin -o "$work/kernel.cubin" "$kernel"
done
