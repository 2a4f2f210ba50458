# cmake -DPORT=... -DFEATURES=... -DSOURCE_DIR=... -DWORK_DIR=... -DGENERATOR=... -DCXX_FLAGS=... -DCONFIGURE_OPTIONS=... -P install.cmake
#
# What `vcpkg install PORT[FEATURES]` does, where there is no vcpkg: runs the port's portfile.cmake for Debug and Release, with the libraries of this
# machine for the port's dependencies; checks what came of it as vcpkg does; and uses it. vcpkg.sh calls it.
#
# functions.cmake has the functions that portfiles call, manifest.cmake and checks.cmake what vcpkg checks before and after, used.cmake who uses the
# package. Both configurations are compiled with CXX_FLAGS: they are told apart by their names alone, and ccache has their objects.
cmake_minimum_required(VERSION 3.25)

function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The port builds the tree that it lies in. In a copy of it the paths of sources and objects, seen from each other, are those of a build folder of
# the tree itself, by which ccache knows them; and what the copy lacks, the port does not need.
set(tree ${WORK_DIR}/tree)
foreach(part IN ITEMS CMakeLists.txt VERSION LICENSE cmake include src templates tools packaging)
  file(COPY ${SOURCE_DIR}/${part} DESTINATION ${tree})
endforeach()
set(ENV{CCACHE_BASEDIR} ${tree})
set(ENV{CCACHE_NOHASHDIR} 1)

# What vcpkg and the triplet x64-linux tell a portfile.
set(TARGET_TRIPLET x64-linux)
set(VCPKG_TARGET_IS_LINUX ON)
set(VCPKG_LIBRARY_LINKAGE static)
set(CURRENT_PORT_DIR ${tree}/packaging/vcpkg/${PORT})
set(CURRENT_BUILDTREES_DIR ${tree})
set(CURRENT_PACKAGES_DIR ${WORK_DIR}/packages/${PORT}_${TARGET_TRIPLET})
set(CURRENT_INSTALLED_DIR ${WORK_DIR}/installed/${TARGET_TRIPLET})

include(${CMAKE_CURRENT_LIST_DIR}/manifest.cmake)
read_manifest(${CURRENT_PORT_DIR}/vcpkg.json)
include(${CMAKE_CURRENT_LIST_DIR}/functions.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/checks.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/used.cmake)

include(${CURRENT_PORT_DIR}/portfile.cmake)
check_dependencies(${tree}/${TARGET_TRIPLET}-dbg ${PORT_DEPENDENCIES})
check_dependencies(${tree}/${TARGET_TRIPLET}-rel ${PORT_DEPENDENCIES} ${FEATURE_DEPENDENCIES})
check_package(${CURRENT_PACKAGES_DIR})
# vcpkg moves packages to where they are used, and what they were built from goes.
file(MAKE_DIRECTORY ${WORK_DIR}/installed)
file(RENAME ${CURRENT_PACKAGES_DIR} ${CURRENT_INSTALLED_DIR})
file(REMOVE_RECURSE ${tree})
use_package(${CURRENT_INSTALLED_DIR})
