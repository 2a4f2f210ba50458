# cmake -DBUILD_DIR=... -DWORK_DIR=... -DSOURCE_DIR=... -DCXX=... -DCXX_FLAGS=... -DVERSION=... -P deb.cmake
#
# Packs the build as a Debian package, unpacks that into a folder and uses it from there: the consumer is built against it and the command
# is run. Called by ctest (tests/CMakeLists.txt); nothing is installed on the machine. Without dpkg-shlibdeps it says so and ends: the test is skipped.
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
if(NOT DPKG_SHLIBDEPS)
  message("skipped: dpkg-shlibdeps is not installed; ./dev deps packages installs dpkg-dev, which brings it")
  return()
endif()
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})

function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

step(${CMAKE_CPACK_COMMAND} -G DEB --config ${BUILD_DIR}/CPackConfig.cmake -B ${WORK_DIR})
file(GLOB packages ${WORK_DIR}/*.deb)
list(LENGTH packages count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "expected one package, found: ${packages}")
endif()

foreach(field IN ITEMS Package Version Depends)
  execute_process(COMMAND dpkg-deb -f ${packages} ${field} OUTPUT_VARIABLE ${field} OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endforeach()
if(NOT Package STREQUAL epifuse OR NOT Version STREQUAL "${VERSION}")
  message(FATAL_ERROR "the package calls itself ${Package} ${Version}; expected epifuse ${VERSION}")
endif()
# The C and C++ libraries alone: CUDA, fmt and spdlog are not needed to run.
string(REGEX MATCHALL "[a-z0-9+.-]+ \\(" names "${Depends}")
foreach(name IN LISTS names)
  if(NOT name MATCHES "^(libc6|libgcc-s1|libstdc\\+\\+6) ")
    message(FATAL_ERROR "the package depends on more than the C and C++ libraries: ${Depends}")
  endif()
endforeach()

set(root ${WORK_DIR}/unpacked)
step(dpkg-deb -x ${packages} ${root})
foreach(file IN ITEMS bin/epifuse include/epifuse/epifuse.hpp include/epifuse/epifuse.h share/man/man1/epifuse.1
                      share/bash-completion/completions/epifuse)
  if(NOT EXISTS ${root}/usr/${file})
    message(FATAL_ERROR "the package has no /usr/${file}")
  endif()
endforeach()
step(${root}/usr/bin/epifuse run "relu(x)" x=f32[4] --device cpu)
step(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/build -DCMAKE_PREFIX_PATH=${root}/usr -DCMAKE_CXX_COMPILER=${CXX}
     -DCMAKE_CXX_FLAGS=${CXX_FLAGS} -DCMAKE_BUILD_TYPE=Release)
step(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
step(${WORK_DIR}/build/consumer)
