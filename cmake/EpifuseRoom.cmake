# epifuse_room(NAME SOURCES ... [DEPENDS room ...] [LIBRARIES target ...])
#
# A room is one folder of src/, a stage of the pipeline. It becomes the object library epifuse_NAME. Its headers are
# included as "NAME/header.hpp", and only by rooms that list it in DEPENDS: each room has an include directory of its own that
# holds nothing but a link to the folder, so an include that reaches back in the pipeline does not compile.
function(epifuse_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  set(door ${PROJECT_BINARY_DIR}/rooms/${name})
  file(MAKE_DIRECTORY ${door})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${name} ${door}/${name} SYMBOLIC)

  add_library(epifuse_${name} OBJECT ${ROOM_SOURCES})
  target_include_directories(epifuse_${name} PUBLIC ${door} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(epifuse_${name} PRIVATE epifuse_settings)
  foreach(room IN LISTS ROOM_DEPENDS)
    target_link_libraries(epifuse_${name} PUBLIC epifuse_${room})
  endforeach()
  target_link_libraries(epifuse_${name} PUBLIC ${ROOM_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY EPIFUSE_ROOMS ${name})
endfunction()
