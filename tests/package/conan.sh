#!/usr/bin/env bash
# conan.sh SOURCE_DIR WORK_DIR CXX GENERATOR BUILD_TYPE FLAGS UNITY WERROR
#
# Packs the library with Conan, in a Conan home of its own, and uses the package: tests/package/conan is built against it and runs. That takes this
# machine's libraries. What the recipe requires else is tried with tests/package/conan/center, which stands in for Conan Center. Called by ctest
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
settings=(--no-remote -s compiler.cppstd=20 -s build_type="$build_type" -c tools.cmake.cmaketoolchain:generator="$generator"
  -c 'tools.cmake.cmaketoolchain:enabled_blocks=["find_paths", "shared", "cppstd", "extra_variables"]'
  -c "tools.cmake.cmaketoolchain:extra_variables={'CMAKE_CXX_FLAGS_${build_type^^}': '$flags', 'EPIFUSE_UNITY': '$unity', 'EPIFUSE_WERROR': '$werror'}")
"$conan" create "$source" "${settings[@]}" -o '&:system_dependencies=True' \
  --test-folder "$source/tests/package/conan" -c tools.cmake.cmake_layout:test_folder="$work/test"

# The libraries as Conan Center gives them: CMake finds each where Conan says, and the component that includes spdlog and fmt compiles. The others,
# which take minutes since fmt's headers come with another definition, would show nothing else.
while IFS=/ read -r name version; do
  "$conan" export "$source/tests/package/conan/center" --name "$name" --version "$version"
done < <(grep -oE '"[a-z0-9_]+/[0-9.]+"' "$source/conanfile.py" | tr -d '"')
"$conan" install "$source" "${settings[@]}" --build=missing --output-folder "$work/center"
cmake -S "$source" -B "$work/center/build" -G "$generator" --toolchain "$work"/center/build-conan-*/generators/conan_toolchain.cmake \
  -DCMAKE_BUILD_TYPE="$build_type" -DEPIFUSE_BUILD_TESTS=OFF -DEPIFUSE_BUILD_EXAMPLES=OFF -DEPIFUSE_BUILD_BENCHMARKS=OFF
for package in spdlog fmt Eigen3 CLI11 nlohmann_json; do
  grep -q "^${package}_DIR:PATH=$work/center/" "$work/center/build/CMakeCache.txt" ||
    { echo "CMake does not take $package from Conan" >&2; exit 1; }
done
cmake --build "$work/center/build" --target epifuse_base
