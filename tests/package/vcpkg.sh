#!/usr/bin/env bash
# vcpkg.sh SOURCE_DIR WORK_DIR
#
# Installs the port packaging/vcpkg/epifuse with the vcpkg in VCPKG_ROOT, and uses what was installed: tests/consumer is built against it, and
# the command runs. What vcpkg complains of is an error. Called by ctest (tests/CMakeLists.txt). Exit code 77: VCPKG_ROOT is not set.
set -euo pipefail
source=$1 work=$2
[[ -n ${VCPKG_ROOT:-} ]] || { echo 'skipped: VCPKG_ROOT, the folder of a vcpkg, is not set'; exit 77; }
[[ -x $VCPKG_ROOT/vcpkg ]] || { echo "VCPKG_ROOT is $VCPKG_ROOT, where no vcpkg is; bootstrap-vcpkg.sh there makes it" >&2; exit 1; }

rm -rf "$work"
mkdir -p "$work"
# No cache of binaries: vcpkg knows a package by its port, and the sources are not in that.
"$VCPKG_ROOT/vcpkg" install 'epifuse[tool]' --classic --overlay-ports="$source/packaging/vcpkg" --enforce-port-checks --no-binarycaching \
  --x-install-root="$work/installed" --x-buildtrees-root="$work/buildtrees" --x-packages-root="$work/packages"

cmake -S "$source/tests/consumer" -B "$work/consumer" -DCMAKE_BUILD_TYPE=Release -DVCPKG_MANIFEST_MODE=OFF \
  -DVCPKG_INSTALLED_DIR="$work/installed" -DCMAKE_TOOLCHAIN_FILE="$VCPKG_ROOT/scripts/buildsystems/vcpkg.cmake"
cmake --build "$work/consumer"
"$work/consumer/consumer"
"$work"/installed/*/tools/epifuse/epifuse run 'relu(x)' 'x=f32[4]' --device cpu
