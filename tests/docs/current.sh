#!/usr/bin/env bash
# What the documents quote is what the code gives: the quickstart in the README, the table of operations, plans, the emitted kernels.
# usage: current.sh EPIFUSE SOURCE_DIR
set -euo pipefail
tool=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
cd "$source"
same() {
  diff -u "$1" "$2" >"$work/diff" && return
  head -n 20 "$work/diff"
  echo "FAILED: $3"
  failed=1
}

sed -n '/<!-- quickstart -->/,/<!-- \/quickstart -->/p' "$source/README.md" | sed '/^<!--/d; /^```/d; /^$/{1d}' >"$work/quickstart"
sed '/^$/{1d}' "$source/examples/quickstart.cpp" >"$work/expected"
same "$work/expected" "$work/quickstart" 'README.md does not show examples/quickstart.cpp as it is'

"$tool" ops --markdown >"$work/operations"
grep -F '|' "$source/docs/guide/operations.md" >"$work/documented" || true
grep -F '|' "$work/operations" >"$work/generated"
same "$work/generated" "$work/documented" 'docs/guide/operations.md is not what `epifuse ops --markdown` prints'

# Plans, but for what the compiler's version decides.
of_compiler='^(registers|shared memory|in flight) '
epifuse() { "$tool" "$@"; }
for page in docs/internals/plan.md docs/internals/plan/*.md docs/internals/adding-a-schedule.md docs/guide/quantisation.md; do
  { grep -h '^\$ epifuse dump .*--emit plan' "$page" || true; } >"$work/commands"
  while IFS= read -r command; do
    awk -v command="$command" '$0 == command { quoted = 1; next } quoted && /^```/ { exit } quoted' "$page" |
      grep -vE "$of_compiler" >"$work/quoted"
    eval "${command#\$ }" | grep -vE "$of_compiler" >"$work/planned"
    same "$work/planned" "$work/quoted" "$page quotes another plan for: $command"
  done <"$work/commands"
done

mkdir "$work/kernels"
bash "$source/docs/internals/kernels/generate.sh" "$tool" "$work/kernels"
for kernel in "$work"/kernels/*.cu; do
  same "$kernel" "$source/docs/internals/kernels/$(basename "$kernel")" "docs/internals/kernels/$(basename "$kernel") is old: run docs/internals/kernels/generate.sh"
done
exit $failed
