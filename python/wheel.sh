#!/usr/bin/env bash
# Builds the package's wheel: python/wheel.sh FOLDER [libepifuse.a]. With Python 3.12 or newer it is for the stable ABI, and serves all of these.
# The library is built too, unless one that was built from this source is given. EPIFUSE_PYTHON names the interpreter (with pip).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -ge 1 ]] || { echo "usage: python/wheel.sh FOLDER [libepifuse.a]" >&2; exit 2; }
mkdir -p "$1"
options=()
[[ -z ${2:-} ]] || options=(--config-settings=cmake.define.EPIFUSE_PREBUILT="$(realpath "$2")")
exec "${EPIFUSE_PYTHON:-python3}" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$1" "${options[@]}" .
