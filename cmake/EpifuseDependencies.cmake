# What EpiFuse takes from the machine. Nothing but libstdc++ and glibc is linked dynamically: a binary built here runs on machines
# with other versions of fmt and spdlog, or none. CUDA is opened at run time (src/jit, src/runtime), so it is not looked for here.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)

# The distributions' spdlog targets link libfmt.so; epifuse_spdlog takes the headers of both, header-only. Only src/base/log.cpp
# includes spdlog itself.
add_library(epifuse_spdlog INTERFACE)
get_target_property(spdlog_includes spdlog::spdlog_header_only INTERFACE_INCLUDE_DIRECTORIES)
get_target_property(spdlog_definitions spdlog::spdlog_header_only INTERFACE_COMPILE_DEFINITIONS)
if(spdlog_includes)
  target_include_directories(epifuse_spdlog SYSTEM INTERFACE ${spdlog_includes})
endif()

target_compile_definitions(epifuse_spdlog INTERFACE SPDLOG_HEADER_ONLY)
if("SPDLOG_FMT_EXTERNAL" IN_LIST spdlog_definitions OR "SPDLOG_FMT_EXTERNAL=1" IN_LIST spdlog_definitions)
  find_package(fmt REQUIRED)
  target_compile_definitions(epifuse_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
  target_link_libraries(epifuse_spdlog INTERFACE fmt::fmt-header-only)
endif()
