# cmake -DBUILD_DIR=... -DWORK_DIR=... -DSOURCE_DIR=... -DCXX=... -DCXX_FLAGS=... -DSHARED=ON|OFF -DLIBDIR=lib -P run.cmake
#
# Installs the build into WORK_DIR/prefix, then builds and runs the consumer against it twice: with find_package and with
# pkg-config. Called by ctest (tests/CMakeLists.txt).
file(REMOVE_RECURSE ${WORK_DIR})
set(prefix ${WORK_DIR}/prefix)

function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

step(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})

# Moved after the installation: nothing in the tree may remember where it was put.
file(RENAME ${prefix} ${WORK_DIR}/moved)
set(prefix ${WORK_DIR}/moved)

step(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/build -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX}
     -DCMAKE_CXX_FLAGS=${CXX_FLAGS} -DCMAKE_BUILD_TYPE=Release)
step(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
step(${WORK_DIR}/build/consumer)

find_program(PKG_CONFIG NAMES pkg-config pkgconf)
if(NOT PKG_CONFIG)
  message(STATUS "no pkg-config on this machine: epifuse.pc is not tested")
  return()
endif()
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
set(ENV{LD_LIBRARY_PATH} ${prefix}/${LIBDIR})
set(static --static)
if(SHARED)
  set(static "")
endif()
execute_process(COMMAND ${PKG_CONFIG} --cflags --libs ${static} epifuse OUTPUT_VARIABLE flags
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
separate_arguments(CXX_FLAGS UNIX_COMMAND "${CXX_FLAGS}")
step(${CXX} -std=c++20 ${CXX_FLAGS} ${SOURCE_DIR}/main.cpp -o ${WORK_DIR}/consumer-pc ${flags})
step(${WORK_DIR}/consumer-pc)

if(EXISTS ${prefix}/bin/epifuse)
  step(${prefix}/bin/epifuse --help)
  foreach(file IN ITEMS man/man1/epifuse.1 bash-completion/completions/epifuse zsh/site-functions/_epifuse fish/vendor_completions.d/epifuse.fish)
    file(STRINGS ${prefix}/share/${file} lines REGEX "epifuse")
    if(lines STREQUAL "")
      message(FATAL_ERROR "share/${file} is empty")
    endif()
  endforeach()
endif()
