# epifuse_component(NAME SOURCES ... [DEPENDS component ...] [LIBRARIES target ...] [DIRECTORY dir])
#
# A component is one folder of src/ (or DIRECTORY), a stage of the pipeline. It becomes the object library epifuse_NAME. Its headers
# are included as "NAME/header.hpp", and only by components that list it in DEPENDS: each component has an include directory of its own
# that holds nothing but a link to the folder, so an include that reaches back in the pipeline does not compile.
function(epifuse_component name)
  cmake_parse_arguments(COMPONENT "" "DIRECTORY" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  if(NOT COMPONENT_DIRECTORY)
    set(COMPONENT_DIRECTORY ${PROJECT_SOURCE_DIR}/src/${name})
  endif()
  set(include_dir ${PROJECT_BINARY_DIR}/components/${name})
  file(MAKE_DIRECTORY ${include_dir})
  file(CREATE_LINK ${COMPONENT_DIRECTORY} ${include_dir}/${name} SYMBOLIC)

  set_property(SOURCE ${COMPONENT_SOURCES} PROPERTY UNITY_GROUP ${name})  # where EPIFUSE_UNITY asks for it
  add_library(epifuse_${name} OBJECT ${COMPONENT_SOURCES})
  set_target_properties(epifuse_${name} PROPERTIES UNITY_BUILD ${EPIFUSE_UNITY} UNITY_BUILD_MODE GROUP)
  epifuse_library_settings(epifuse_${name})
  target_include_directories(epifuse_${name} PUBLIC ${include_dir})
  # PRIVATE, so that a component does not inherit what its neighbours see: each one names all that it includes.
  list(TRANSFORM COMPONENT_DEPENDS PREPEND epifuse_)
  target_link_libraries(epifuse_${name} PRIVATE ${COMPONENT_DEPENDS} PUBLIC ${COMPONENT_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY EPIFUSE_COMPONENTS epifuse_${name})
endfunction()

# What every component needs, and what compiles files of components once more (tests/fuzz).
function(epifuse_library_settings target)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_compile_definitions(${target} PRIVATE EPIFUSE_VERSION="${EPIFUSE_VERSION}")
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:epifuse_settings>)
endfunction()

# Symbols of the C interface get the versions of src/api/c_interface.map, where the linker knows versions.
function(epifuse_version_symbols target)
  if(UNIX AND NOT APPLE)
    set(map ${PROJECT_SOURCE_DIR}/src/api/c_interface.map)
    target_link_options(${target} PRIVATE LINKER:--version-script=${map})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
  endif()
endfunction()

# The library itself: the objects of all components, and what a program that links it needs.
function(epifuse_library name)
  get_property(components GLOBAL PROPERTY EPIFUSE_COMPONENTS)
  add_library(${name})
  foreach(component IN LISTS components)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${component}>)
  endforeach()
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  # Before 1.0 a minor version may change the ABI, so it is part of the library's name.
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                        LINKER_LANGUAGE CXX)
  if(BUILD_SHARED_LIBS)
    epifuse_version_symbols(${name})
  endif()
endfunction()
