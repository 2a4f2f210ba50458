# vcpkg's recipe of the library, built from the source tree that holds this file:
#     vcpkg install epifuse --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS feature_options FEATURES tool EPIFUSE_BUILD_TOOLS)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${feature_options} -DEPIFUSE_BUILD_TESTS=OFF -DEPIFUSE_BUILD_EXAMPLES=OFF -DEPIFUSE_BUILD_BENCHMARKS=OFF
  OPTIONS_DEBUG -DEPIFUSE_BUILD_TOOLS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME epifuse CONFIG_PATH lib/cmake/epifuse)
vcpkg_fixup_pkgconfig()
if("tool" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES epifuse AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
