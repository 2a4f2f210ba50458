# Language level, warnings and sanitizers of everything that this project itself compiles.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(epifuse_settings INTERFACE)
target_compile_options(epifuse_settings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  $<$<BOOL:${EPIFUSE_WERROR}>:-Werror>
  # One rounding per operation, on the CPU as on the GPU (--fmad=false there).
  -ffp-contract=off)
if(EPIFUSE_SANITIZE)
  target_compile_options(epifuse_settings INTERFACE -fsanitize=${EPIFUSE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(epifuse_settings INTERFACE -fsanitize=${EPIFUSE_SANITIZE})
endif()
