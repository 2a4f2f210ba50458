#!/usr/bin/env bash
# Writes the kernels of the six pointwise examples, as `epifuse dump` emits them in f16 (example 6: i32 to i8), and four with reductions, beside this script.
# usage: docs/internals/kernels/generate.sh [EPIFUSE [FOLDER]]   (build/tools/epifuse, this folder)
# tests/docs/current.sh runs it into another folder and compares: what stands here is what EpiFuse emits.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tool=${1:-$here/../../build/tools/epifuse}
folder=${2:-$here}

emit() {
  local name=$1
  shift
  "$tool" dump "$@" --arch sm_90 --emit cuda >"$folder/$name.cu"
}
emit example_1 'relu(x) + bias' 'x=f16[128,128,126,126]' 'bias=f32[128,1,1]' --out f16
emit example_2 'relu(x + bias)' 'x=f16[1024,8192]' 'bias=f32[8192]' --out f16
emit example_3 'sigmoid((x + bias) * scale)' 'x=f16[128,32,254,254]' 'bias=f32[32,1,1]' 'scale=f32[32,1,1]' --out f16
emit example_4 '(minimum(x, 0.5) + bias) * 2' 'x=f16[128,128,126,126]' 'bias=f32[128,1,1]' --out f16
emit example_5 'x * sigmoid(x) + bias2' 'x=f16[32768,4096]' 'bias2=f32[4096]' --out f16
emit example_6 'relu(x * scale + bias)' 'x=i32[8192,4096]' 'scale=f32[4096]' 'bias=f32[4096]' --out i8
emit softmax 'softmax(x, axis=-1)' 'x=f16[16384,4096]' --out f16
emit group_norm 'silu(group_norm(x, 32, weight, bias))' 'x=f16[16,512,64,64]' 'weight=f32[512]' 'bias=f32[512]' --out f16
emit group_norm_split_resident 'silu(group_norm(x, 32, weight, bias))' 'x=f16[1,512,360,640]' 'weight=f32[512]' 'bias=f32[512]' --out f16
emit group_norm_split 'silu(group_norm(x, 32, weight, bias))' 'x=f32[1,512,720,1280]' 'weight=f32[512]' 'bias=f32[512]' --out f32
