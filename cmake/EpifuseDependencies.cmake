# What EpiFuse takes from the machine. Nothing but libstdc++ and glibc is linked dynamically: a binary built here runs on machines
# with other versions of fmt and spdlog, or none. CUDA is opened at run time (src/jit, src/runtime), so it is not looked for here,
# but for NVTX's headers.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
# Without a version: Eigen 5 answers no request for 3.3, and Eigen 3.3 knows no ranges.
find_package(Eigen3 REQUIRED NO_MODULE)
if(Eigen3_VERSION VERSION_LESS 3.3)
  message(FATAL_ERROR "Eigen ${Eigen3_VERSION} was found in ${Eigen3_DIR}; EpiFuse needs 3.3 or newer")
endif()
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
target_include_directories(epifuse_settings SYSTEM INTERFACE $<BUILD_INTERFACE:${XXHASH_INCLUDE_DIR}>)

# The distributions' spdlog targets link libfmt.so; epifuse_spdlog takes the headers of both instead. spdlog is header-only, and only
# src/base/log.cpp includes it. Of fmt 9 src/base/fmt.cpp compiles what is not inline, once; other versions, whose insides differ, and the copy in
# spdlog are header-only too.
add_library(epifuse_spdlog INTERFACE)
get_target_property(spdlog_includes spdlog::spdlog_header_only INTERFACE_INCLUDE_DIRECTORIES)
get_target_property(spdlog_definitions spdlog::spdlog_header_only INTERFACE_COMPILE_DEFINITIONS)
if(spdlog_includes)
  target_include_directories(epifuse_spdlog SYSTEM INTERFACE ${spdlog_includes})
endif()

target_compile_definitions(epifuse_spdlog INTERFACE SPDLOG_HEADER_ONLY)
# Conan's target has its definitions within generator expressions.
if(spdlog_definitions MATCHES "SPDLOG_FMT_EXTERNAL")
  find_package(fmt REQUIRED)
  target_compile_definitions(epifuse_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
  if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
    set(EPIFUSE_FMT_SOURCE base/fmt.cpp)
    target_include_directories(epifuse_spdlog SYSTEM INTERFACE $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
  else()
    target_link_libraries(epifuse_spdlog INTERFACE fmt::fmt-header-only)
  endif()
endif()

# Eigen's headers multiply matrices on the CPU device. Warnings are those of this project's own code.
add_library(epifuse_eigen INTERFACE)
target_include_directories(epifuse_eigen SYSTEM INTERFACE $<TARGET_PROPERTY:Eigen3::Eigen,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(epifuse_eigen INTERFACE EIGEN_MPL2_ONLY)

# NVTX 3 of a CUDA toolkit, or of NVIDIA's wheel nvidia-nvtx: headers alone, with which ranges reach a profiler. Without them ranges reach the
# libnvToolsExt that an application has loaded, and nothing else (src/runtime/nvtx.cpp).
find_path(EPIFUSE_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h
          HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
mark_as_advanced(EPIFUSE_NVTX_INCLUDE_DIR)
if(NOT EPIFUSE_NVTX_INCLUDE_DIR)
  message(STATUS "EpiFuse: no nvtx3/nvToolsExt.h was found, so that Nsight shows no ranges of launches")
endif()
