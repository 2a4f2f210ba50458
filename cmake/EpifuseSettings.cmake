# Language level, warnings and sanitizers of everything that this project itself compiles.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
  endif()
  find_program(CCACHE ccache)
  if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # By default ccache keeps nothing of files that are compiled with precompiled headers.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  endif()
endif()

add_library(epifuse_settings INTERFACE)
target_compile_options(epifuse_settings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  # GCC 12 takes "text" + std::string for overlapping memory (its bug 105651, mended in 13).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${EPIFUSE_WERROR}>:-Werror>
  # One rounding per operation, on the CPU as on the GPU (--fmad=false there).
  -ffp-contract=off)

# Ends the program at the first finding, so that a test cannot pass over one.
if(EPIFUSE_SANITIZE)
  add_compile_options(-fsanitize=${EPIFUSE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=${EPIFUSE_SANITIZE})
endif()
