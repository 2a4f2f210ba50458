#!/usr/bin/env bash
# conan.sh SOURCE_DIR WORK_DIR CXX GENERATOR BUILD_TYPE FLAGS UNITY WERROR
#
# Packs the library with Conan, in a Conan home of its own, and uses the package: tests/package/conan is built against it and runs. Called by ctest
# (tests/CMakeLists.txt) with the compiler and the flags of the build that ctest belongs to: ccache then has what that build compiled.
# Exit code 77: there is no Conan.
set -euo pipefail
source=$1 work=$2 generator=$4 build_type=$5 flags=$6 unity=$7 werror=$8
export CXX=$3

conan=$source/.venv/bin/conan
[[ -x $conan ]] || conan=$(command -v conan) ||
  { echo 'skipped: Conan is not installed; ./dev deps packages puts it into .venv'; exit 77; }

rm -rf "$work"
mkdir -p "$work"
export CONAN_HOME=$work/home
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$source} CCACHE_NOHASHDIR=1
"$conan" profile detect
# The blocks are those of Conan's toolchain that the package needs. Without a choice it has -m64, too, and ccache knows a compilation by its flags.
"$conan" create "$source" --no-remote --test-folder "$source/tests/package/conan" \
  -o '&:system_dependencies=True' -s compiler.cppstd=20 -s build_type="$build_type" \
  -c tools.cmake.cmaketoolchain:generator="$generator" -c tools.cmake.cmake_layout:test_folder="$work/test" \
  -c 'tools.cmake.cmaketoolchain:enabled_blocks=["find_paths", "shared", "cppstd", "extra_variables"]' \
  -c "tools.cmake.cmaketoolchain:extra_variables={'CMAKE_CXX_FLAGS_${build_type^^}': '$flags', 'EPIFUSE_UNITY': '$unity', 'EPIFUSE_WERROR': '$werror'}"
