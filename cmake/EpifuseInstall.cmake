# Install rules: the library, its headers, the command, find_package(epifuse CONFIG) and pkg-config's epifuse.pc. The installed
# tree is relocatable; tests/consumer builds against one.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/epifuse)
install(TARGETS epifuse EXPORT epifuse-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/epifuse DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(EXPORT epifuse-targets NAMESPACE epifuse:: DESTINATION ${package_dir})

configure_package_config_file(cmake/epifuse-config.cmake.in epifuse-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(epifuse-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/epifuse-config.cmake ${PROJECT_BINARY_DIR}/epifuse-config-version.cmake
        DESTINATION ${package_dir})

# epifuse.pc finds its prefix from its own place.
file(RELATIVE_PATH EPIFUSE_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/epifuse.pc.in epifuse.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/epifuse.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET epifuse_tool)
  if(BUILD_SHARED_LIBS)
    set_target_properties(epifuse_tool PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  endif()
  install(TARGETS epifuse_tool DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The manual page and the shells' completions are what the command says of itself; a build for another machine cannot run it.
if(TARGET epifuse_tool AND NOT CMAKE_CROSSCOMPILING)
  install(CODE "
    function(epifuse_write file)
      get_filename_component(folder \"${CMAKE_INSTALL_DATADIR}/\${file}\" DIRECTORY)
      set(target \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/\${folder}\")
      get_filename_component(name \"\${file}\" NAME)
      file(MAKE_DIRECTORY \"\${target}\")
      message(STATUS \"Installing: \${target}/\${name}\")
      execute_process(COMMAND \"$<TARGET_FILE:epifuse_tool>\" \${ARGN} OUTPUT_FILE \"\${target}/\${name}\" COMMAND_ERROR_IS_FATAL ANY)
    endfunction()
    epifuse_write(man/man1/epifuse.1 man)
    epifuse_write(bash-completion/completions/epifuse completion bash)
    epifuse_write(zsh/site-functions/_epifuse completion zsh)
    epifuse_write(fish/vendor_completions.d/epifuse.fish completion fish)
  ")
endif()
