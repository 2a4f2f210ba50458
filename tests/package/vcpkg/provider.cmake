# Writes down which packages a build looks for, in its folder, and leaves finding them to CMake. functions.cmake includes it at each project().
function(note_package method package)
  file(APPEND ${CMAKE_BINARY_DIR}/looked-for.txt "${package}\n")
endfunction()
cmake_language(SET_DEPENDENCY_PROVIDER note_package SUPPORTED_METHODS FIND_PACKAGE)
