# cmake -DCXX=... -DBUILD_DIR=... -DSOURCE_DIR=... -P components.cmake: components are walled (cmake/EpifuseComponent.cmake). With ir's include path,
# ir's own headers and base's compile, those of a later stage do not. Called by ctest.
file(READ ${BUILD_DIR}/compile_commands.json commands)
string(JSON count LENGTH "${commands}")
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON command GET "${commands}" ${i} command)
  # An object of the component's own, be it of one file or of all.
  if(command MATCHES "epifuse_ir.dir")
    string(REGEX MATCHALL "(-I|-isystem )[^ ]+" includes "${command}")
    string(REPLACE "-isystem " "-isystem;" includes "${includes}")
  endif()
endforeach()

# compiles: whether it must.
function(expect include compiles)
  file(WRITE ${BUILD_DIR}/components/probe.cpp "#include \"${include}\"\n")
  execute_process(COMMAND ${CXX} -std=c++20 ${includes} -E -o /dev/null ${BUILD_DIR}/components/probe.cpp
                  RESULT_VARIABLE rc ERROR_VARIABLE error)
  if(compiles AND NOT rc EQUAL 0)
    message(FATAL_ERROR "ir/ must be able to include ${include}:\n${error}")
  elseif(NOT compiles AND rc EQUAL 0)
    message(FATAL_ERROR "ir/ can include ${include}, which stands to its right in the pipeline")
  endif()
endfunction()
expect(base/log.hpp TRUE)
expect(ir/program.hpp TRUE)
expect(plan/plan.hpp FALSE)
expect(templates/templates.hpp FALSE)
