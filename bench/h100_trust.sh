#!/usr/bin/env bash
# The attacks that want a GPU, or many cores: each step writes its report to OUT, and has a time of its own.
#   bench/h100_trust.sh OUT STEP…
#     attack         process_gpu_test in its long form: four to five minutes   attack-process-gpu.json
#     soak=MINUTES   random programs on the GPU (seed: EPIFUSE_SOAK_SEED)    soak-gpu.json
#     fuzz=SECONDS   all fuzzers, a process per core                         fuzz-run.json, fuzz-corpora.tar.gz
# Nothing is built: for attack and soak the folder holds build/tests/process_gpu_test and build/tests/soak/epifuse_soak (./dev build), for fuzz
# build-fuzz/tests/fuzz/fuzz_* (./dev fuzz builds them). EPIFUSE_COMMIT says from which commit, where no git can. What fuzz leaves is taken home
# with `./dev fuzz --collect OUT --merge`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ $# -lt 2 ]]; then  # as among the other scripts of ./dev bench
  sed -n '3,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit $(($# > 0))
fi
out=$(realpath -m "$1")
shift
mkdir -p "$out"
EPIFUSE_COMMIT=${EPIFUSE_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
export EPIFUSE_COMMIT PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

attack() { ATTACK_BUILD=build/tests/attack python3 tests/attack/attack.py --long --report "$out/attack-process-gpu.json" process-gpu; }
soak() {
  ./dev soak --prebuilt --device cuda --minutes "$1" --seed "${EPIFUSE_SOAK_SEED:-2026}" --emitted-share 0 \
    --regressions "$out/soak-failed.inc" --json "$out/soak-gpu.json"
}
# Four fuzzers: as many workers of each as give every core one.
fuzz() {
  local cores; cores=$(nproc)
  ./dev fuzz --prebuilt --seconds "$1" --workers $(((cores + 3) / 4)) --at-once $(((cores + 3) / 4 * 4)) --out "$out"
}

failed=0
for step in "$@"; do
  begin=$SECONDS
  case $step in
    attack) attack ;;
    soak=*) soak "${step#*=}" ;;
    fuzz=*) fuzz "${step#*=}" ;;
    *) echo "h100_trust.sh: no step '$step'" >&2 && false ;;
  esac || failed=1
  echo "== $step: $((SECONDS - begin)) s"
done
exit $failed
