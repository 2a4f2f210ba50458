#!/usr/bin/env bash
# vcpkg.sh SOURCE_DIR WORK_DIR CXX GENERATOR FLAGS UNITY WERROR
#
# Installs the port packaging/vcpkg/epifuse and uses what was installed: tests/consumer is built against it, and the command runs. The vcpkg in
# VCPKG_ROOT does that where it is set; what vcpkg complains of is an error. Elsewhere tests/package/vcpkg/install.cmake stands in for it, with the
# compiler and the flags of the build that ctest belongs to, so that ccache has what that build compiled. Called by ctest (tests/CMakeLists.txt).
set -euo pipefail
source=$1 work=$2
rm -rf "$work"
mkdir -p "$work"

if [[ -z ${VCPKG_ROOT:-} ]]; then
  echo 'VCPKG_ROOT, the folder of a vcpkg, is not set: a stand-in installs the port'
  export CXX=$3
  exec cmake -DPORT=epifuse -DFEATURES=tool -DSOURCE_DIR="$source" -DWORK_DIR="$work" -DGENERATOR="$4" -DCXX_FLAGS="$5" \
    -DCONFIGURE_OPTIONS="-DEPIFUSE_UNITY=$6;-DEPIFUSE_WERROR=$7" -P "$source/tests/package/vcpkg/install.cmake"
fi

[[ -x $VCPKG_ROOT/vcpkg ]] || { echo "VCPKG_ROOT is $VCPKG_ROOT, where no vcpkg is; bootstrap-vcpkg.sh there makes it" >&2; exit 1; }
# No cache of binaries: vcpkg knows a package by its port, and the sources are not in that.
"$VCPKG_ROOT/vcpkg" install 'epifuse[tool]' --classic --overlay-ports="$source/packaging/vcpkg" --enforce-port-checks --no-binarycaching \
  --x-install-root="$work/installed" --x-buildtrees-root="$work/buildtrees" --x-packages-root="$work/packages"

cmake -S "$source/tests/consumer" -B "$work/consumer" -DCMAKE_BUILD_TYPE=Release -DVCPKG_MANIFEST_MODE=OFF \
  -DVCPKG_INSTALLED_DIR="$work/installed" -DCMAKE_TOOLCHAIN_FILE="$VCPKG_ROOT/scripts/buildsystems/vcpkg.cmake"
cmake --build "$work/consumer"
"$work/consumer/consumer"
"$work"/installed/*/tools/epifuse/epifuse run 'relu(x)' 'x=f32[4]' --device cpu
