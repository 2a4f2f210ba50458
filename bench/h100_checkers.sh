#!/usr/bin/env bash
# One run of every schedule under each of compute-sanitizer's checkers: memory, races, synchronisation,
# initialisation. usage: bench/h100_checkers.sh [EPIFUSE [OUT_DIR [REGEX]]]   (build/tools/epifuse, build/results, all; writes OUT_DIR/gpu-checkers.txt)
set -u
tool=${1:-build/tools/epifuse} out=${2:-build/results} chosen=${3:-}
if [[ $(nvidia-smi -L 2>/dev/null) != GPU* ]] || ! command -v compute-sanitizer >/dev/null; then
  echo 'h100_checkers.sh: needs a GPU and compute-sanitizer, of the CUDA toolkit' >&2
  exit $(($# > 0)) # among the other benchmarks of `./dev bench` that is no failure
fi
mkdir -p "$out"
export EPIFUSE_CACHE=off
report=$out/gpu-checkers.txt
{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1
  compute-sanitizer --version | tail -n 1
  echo "commit ${EPIFUSE_COMMIT:-unknown}"
} >"$report"

# Most of a check is the checker's own start, on the CPU: several schedules at once.
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
count=0

check() { # name, then what `epifuse run` takes
  [[ $1 =~ $chosen ]] || return
  while (($(jobs -rp | wc -l) >= ${EPIFUSE_JOBS:-$(nproc)})); do wait -n; done
  check_one "$(printf '%s/%03d' "$parts" "$count")" "$@" &
  count=$((count + 1))
}

check_one() { # file for the report's line, name, what `epifuse run` takes; FILE.failed: what the checkers said
  local file=$1 name=$2 line verdict checker
  shift 2
  line=$(printf '%-34s' "$name")
  for checker in memcheck racecheck synccheck initcheck; do
    if verdict=$(timeout 120 compute-sanitizer --tool "$checker" --error-exitcode 9 "$tool" run --device cuda "$@" 2>&1); then
      line+=" $checker ok,"
    else
      line+=" $checker FAILED,"
      printf '%s\n' "$name, $checker:" "$verdict" >>"$file.failed"
    fi
  done
  echo "${line%,}" | tee "$file"
}

check 'flat'                        "sigmoid((x + b) * 2)" 'x=f16[8,32,30,30]' 'b=f32[32,1,1]'
check 'flat, odd lines'             "gelu(x + b)" 'x=f8e4m3[8,31,17,13]' 'b=f32[31,1,1]'
check 'rows'                        "relu(x) * 2" 'x=f16[300,1000]:strides(1024,1)' --out 'f16:strides(1008,1)'
check 'crossed'                     "relu(x) + r" 'x=f16[512,600]:strides(1,512)' 'r=f16[512,600]'
check 'turned'                      "relu(x) + b" 'x=f16[512,600]:strides(1,512)' 'b=f16[600]'
check 'turned, odd lines'           "relu(x) + b" 'x=f8e4m3[4,96,33,37]:nhwc' 'b=f32[96,1,1]' --out f8e4m3
check 'turned, lines cut at sectors' "gelu(x + b)" 'x=f32[4,96,26,50]:nhwc' 'b=f32[96,1,1]' --out f32
check 'one thread per row'          "amin(group_norm(x, 512, w, b), axis=1)" 'x=f32[8,8192]' 'w=f32[8192]' 'b=f32[8192]'
check 'rows of a result in passes'  "amin(group_norm(x, 512, w, b), axis=1)" 'x=f32[140,8192]' 'w=f32[8192]' 'b=f32[8192]'
check 'lanes'                       "softmax(x, axis=-1)" 'x=f16[512,257]'
check 'registers of a block'        "layer_norm(x, w, b)" 'x=f16[600,4096]' 'w=f16[4096]' 'b=f16[4096]'
check 'registers, carried value'    "h = x + r; return h, rms_norm(h, w), amax(abs(h))" 'x=f32[300,8192]' 'r=f32[300,8192]' 'w=f32[8192]'
check 'shared memory'               "softmax(gelu(x), axis=-1)" 'x=f32[300,16000]'
check 'cluster'                     "softmax(x, axis=-1)" 'x=f32[140,131072]'
check 'cluster, odd rows'           "log_softmax(x, axis=-1)" 'x=f16[140,50257]'
check 'cluster, neighbouring rows'  "group_norm(x, 32, w, b)" 'x=f16[8,256,64,64]:nhwc' 'w=f16[256]' 'b=f16[256]' --out f16:nhwc
check 'cluster, pieces of two lanes' "group_norm(x, 32, w, b)" 'x=f32[8,256,64,64]:nhwc' 'w=f32[256]' 'b=f32[256]' --out f32:nhwc
check 'parts of rows, few lanes'   "mean(relu(group_norm(x, 32, w, b)), axis=(2,3))" 'x=f32[64,256,7,7]' 'w=f32[256]' 'b=f32[256]'
check 'parts of rows, lanes of a block' "mean(relu(group_norm(x, 4, w, b)), axis=(2,3))" 'x=f16[150,64,14,14]' 'w=f16[64]' 'b=f16[64]'
check 'parts of rows, registers'   "mean(relu(group_norm(x, 4, w, b)), axis=(2,3))" 'x=f32[150,8,64,64]' 'w=f32[8]' 'b=f32[8]'
check 'parts of rows, cluster'     "mean(relu(group_norm(hardswish(x), 4, w, b)), axis=(2,3,4))" 'x=f16[160,16,13,29,29]' 'w=f16[16]' 'b=f16[16]'
check 'averages of parts'           "mean(group_norm(gelu(x), 4, w, b), axis=(2,3))" 'x=f16[150,16,37,41]' 'w=f32[16]' 'b=f32[16]'
check 'averages across a block'     "mean(group_norm(x, 8, w, b), axis=(1,2,3))" 'x=f32[120,16,32,32]' 'w=f32[16]' 'b=f32[16]'
check 'averages across blocks'      "mean(group_norm(x, 4, w, b), axis=(1,2,3))" 'x=f32[90,16,32,32]' 'w=f32[16]' 'b=f32[16]'
check 'across, exponentials kept'  "sigmoid(softmax(x + b, axis=1))" 'x=f32[16,64,32,33]' 'b=f32[64,1,1]'
check 'one walk, registers'         "amin(x, axis=-1)" 'x=f32[300,8192]'
check 'one walk, loop'              "mean(gelu(x), axis=-1)" 'x=f32[300,64516]'
check 'across memory'               "softmax(x, axis=1)" 'x=f16[4,128,64,64]'
check 'across memory, odd lines'    "softmax(x, axis=1)" 'x=f16[2,128,129,129]'
check 'across memory, cluster'      "softmax(x, axis=0)" 'x=f32[4096,512]'
check 'kept by many blocks'         "group_norm(gelu(x), 2)" 'x=f32[2,8,360,320]'
check 'kept, 16 bits'               "group_norm(gelu(x), 8)" 'x=f16[4,64,258,258]'
check 'kept, long rows'             "group_norm(gelu(x), 1)" 'x=f32[2,8,640,500]'
check 'rows, results turn'          "softmax(x, axis=1)" 'x=f16[2,64,33,37]:nhwc'
check 'registers, results turn'     "softmax(x, axis=1)" 'x=f16[2,64,33,37]' --out f16:nhwc
check 'split, results turn'         "group_norm(gelu(x), 8, w, b)" 'x=f16[2,64,96,97]:nhwc' 'w=f16[64]' 'b=f16[64]'
check 'split across, results turn'  "instance_norm(x)" 'x=f32[8,64,16,17]:nhwc'
check 'split'                       "group_norm(gelu(x), 1, w, b)" 'x=f32[2,8,1024,1024]' 'w=f32[8]' 'b=f32[8]'
check 'split, one walk'             "mean(x, axis=-1)" 'x=f32[2,4000000]'
check 'split across memory'         "mean(x, axis=0)" 'x=f32[65536,512]'
check 'statistic across rows'       "y = layer_norm(x); return y, amax(abs(y))" 'x=f16[2000,1000]'
wait
cat "$parts"/??? >>"$report"
if compgen -G "$parts/*.failed" >/dev/null; then
  cat "$parts"/*.failed >"$out/checkers-failures.txt"
  echo 'some failed: checkers-failures.txt' | tee -a "$report"
  exit 1
fi
echo "all ${chosen:+of these }schedules passed all checkers" | tee -a "$report"
