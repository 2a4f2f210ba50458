#!/usr/bin/env bash
# Every emitted kernel in docs/internals/kernels compiles as it stands with nvcc, and so do kernels of products: without a
# warning. usage: nvcc.sh NVCC SOURCE_DIR TOOL
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# 20054: an accumulator has initial values, and shared memory is never initialised.
compile() {  # NVCC ARCHITECTURE KERNEL
  "$1" --std=c++17 --fmad=false -arch="sm_$2" -Werror all-warnings -diag-suppress 20054 --cubin -o "$work/kernel.cubin" "$3"
}

for kernel in "$2"/docs/internals/kernels/*.cu; do compile "$1" 90 "$kernel"; done

product() {  # CHAIN [OPERAND...]
  local architecture
  for architecture in 80 90; do
    "$tool" dump "$@" --emit cuda --arch "$architecture" >"$work/product.cu"
    compile "$nvcc" "$(sed -n 's/.*-arch=sm_\([0-9a-z]*\) .*/\1/p' "$work/product.cu" | head -1)" "$work/product.cu"
  done
}
nvcc=$1 tool=$3
factors=(x='bf16[512,1024]' w='bf16[1024,1024]')
product 'linear(x, w)' "${factors[@]}" --out bf16
product 'gelu(linear(x, w, b)) + r' "${factors[@]}" b='f32[1024]' r='bf16[512,1024]' --out bf16
product 'y = linear(x, w) * c; return y, sum(y, -1), amax(y, 0)' "${factors[@]}" c='f32[512,1]'
product 'a, b = chunk(linear(x, w), 2, -1); q, s = quantize(silu(a) * b, f8e4m3, 32); return q, s' "${factors[@]}"
product 'relu(conv2d(x, w)) + b' x='bf16[4,64,32,32]:nhwc' w='bf16[64,64,3,3]:nhwc' b='f32[64,1,1]' --out bf16:nhwc
