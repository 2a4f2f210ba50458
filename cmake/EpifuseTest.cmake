# epifuse_test(NAME SOURCES ... [COMPONENTS component ...] [LIBRARIES target ...] [LABEL label] [SLOW_CASES filter]
#              [SLOW] [WHOLE])
#
# Makes the GoogleTest executable NAME from tests/<component>/*.cpp, links the library, and registers its test cases with ctest as
# "NAME.Suite.Case". Every Program that it makes must survive its text (epifuse_check_round_trips).
#   COMPONENTS     the components whose internal headers it includes ("plan/plan.hpp"); named one by one, as in src/CMakeLists.txt
#   LABEL     `gpu` for tests that need a GPU; without one these skip and say why (GTEST_SKIP() << "no GPU: ...")
#   SLOW      for tests of minutes: labelled `slow`, for ./dev test --all alone; without it (and without LABEL) `fast`, for ./dev test too
#   SLOW_CASES  those of its cases that are slow, as GoogleTest filters them: "Suite.Case:Suite.Random*"
#   WHOLE     one ctest entry for the whole executable: for thousands of parametrized cases, where a process each would cost more
#             than the cases do
find_package(GTest REQUIRED)
include(GoogleTest)
file(WRITE ${PROJECT_BINARY_DIR}/tests/gpu-tests.txt "")
# Seconds until a test counts as stuck, and a whole executable: hosts of CI were up to eight times slower than the one on which the longest
# test takes 80 s. More where everything is instrumented.
set(EPIFUSE_TEST_SECONDS 1200)
set(EPIFUSE_TEST_SECONDS_WHOLE 1800)
if(EPIFUSE_SANITIZE)
  set(EPIFUSE_TEST_SECONDS 7200)
  set(EPIFUSE_TEST_SECONDS_WHOLE 7200)
endif()

# The objects of the check that every Program survives its text, compiled once for all targets.
add_library(epifuse_round_trips OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/support/round_trip.cpp)
target_include_directories(epifuse_round_trips PRIVATE ${PROJECT_BINARY_DIR}/components/base ${PROJECT_BINARY_DIR}/components/ir)
target_link_libraries(epifuse_round_trips PRIVATE epifuse_settings epifuse_spdlog)
epifuse_library_settings(epifuse_round_trips)

# epifuse_check_round_trips(TARGET): every Program that TARGET makes is printed and parsed again, and must be the same.
function(epifuse_check_round_trips target)
  target_link_libraries(${target} PRIVATE epifuse_round_trips)
endfunction()

# What most tests include, compiled once for all where EPIFUSE_UNITY asks for builds that take less time: headers are more
# than half of a test's compile time. Each test includes what it uses all the same, and compiles without this in the other
# builds.
set(EPIFUSE_TEST_HEADERS <algorithm> <array> <cmath> <cstdint> <cstdio> <filesystem> <fstream> <functional> <map> <memory> <optional> <random> <regex>
    <set> <span> <sstream> <string> <thread> <variant> <vector> <gtest/gtest.h> <spdlog/fmt/fmt.h> <epifuse/epifuse.hpp>)
# Optimisation is for oracles, which the first level serves as well.
function(epifuse_test_flags target)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess> -O1)
  target_link_libraries(${target} PRIVATE epifuse_settings epifuse_spdlog GTest::gtest_main)
endfunction()
if(EPIFUSE_UNITY)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/tests/epifuse_test_headers.cpp CONTENT "")
  # An executable, since tests are: compiled with -fPIE, not with the -fPIC of libraries, for which GCC would refuse it.
  add_executable(epifuse_test_headers EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/tests/epifuse_test_headers.cpp)
  target_include_directories(epifuse_test_headers PRIVATE ${PROJECT_SOURCE_DIR}/include)
  epifuse_test_flags(epifuse_test_headers)
  target_precompile_headers(epifuse_test_headers PRIVATE ${EPIFUSE_TEST_HEADERS})
endif()

# What ./dev test builds: the executables of the fast tests. epifuse_test() adds its own, epifuse_fast(TARGET...) what other tests run.
add_custom_target(epifuse_fast_tests)
function(epifuse_fast)
  add_dependencies(epifuse_fast_tests ${ARGN})
endfunction()

# The label of tests that epifuse_test() does not make; those that have none by the end of their folder are fast.
function(epifuse_slow_tests)
  set_tests_properties(${ARGN} PROPERTIES LABELS slow)
endfunction()
function(epifuse_label_tests)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test IN LISTS tests)
    get_test_property(${test} LABELS label)
    if(NOT label)
      set_tests_properties(${test} PROPERTIES LABELS fast)
    endif()
  endforeach()
endfunction()

function(epifuse_test name)
  cmake_parse_arguments(TEST "SLOW;WHOLE" "LABEL;SLOW_CASES" "SOURCES;COMPONENTS;LIBRARIES" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  foreach(component IN LISTS TEST_COMPONENTS)
    # The component's headers without its objects: those come from the library.
    target_include_directories(${name} PRIVATE $<TARGET_PROPERTY:epifuse_${component},INTERFACE_INCLUDE_DIRECTORIES>)
  endforeach()

  epifuse_check_round_trips(${name})
  if(TARGET epifuse_test_headers)
    epifuse_test_flags(${name})
    target_precompile_headers(${name} REUSE_FROM epifuse_test_headers)
  endif()
  target_compile_definitions(${name} PRIVATE
    EPIFUSE_VERSION="${EPIFUSE_VERSION}"
    EPIFUSE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE epifuse epifuse_settings epifuse_spdlog ${TEST_LIBRARIES} GTest::gtest_main)

  # One value per property: gtest_discover_tests flattens lists. The cache of the tests is never the user's.
  set(properties
      ENVIRONMENT EPIFUSE_CACHE_DIR=${PROJECT_BINARY_DIR}/test-cache
      ENVIRONMENT_MODIFICATION LSAN_OPTIONS=set:suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0)
  if(TEST_LABEL STREQUAL "gpu")
    file(APPEND ${PROJECT_BINARY_DIR}/tests/gpu-tests.txt "${name}\n")  # for ./dev gpu-test --prebuilt
  endif()
  if(NOT TEST_LABEL)
    set(TEST_LABEL fast)
    if(TEST_SLOW)
      set(TEST_LABEL slow)
      # ctest begins with them, so that none is left for one core at the end.
      list(APPEND properties COST 100)
    else()
      epifuse_fast(${name})
    endif()
  endif()
  if(TEST_WHOLE)
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${EPIFUSE_TEST_SECONDS_WHOLE} LABELS ${TEST_LABEL} ${properties})
  elseif(TEST_SLOW_CASES)
    epifuse_discover(${name} slow "${TEST_SLOW_CASES}" ${properties})
    epifuse_discover(${name} ${TEST_LABEL} "-${TEST_SLOW_CASES}" ${properties})
  else()
    epifuse_discover(${name} ${TEST_LABEL} "*" ${properties})
  endif()
endfunction()

# The cases of an executable that a filter of GoogleTest leaves. They are discovered when ctest starts, not when the executable is linked: a build
# for another machine runs nothing.
function(epifuse_discover name label filter)
  gtest_discover_tests(${name} TEST_PREFIX ${name}. TEST_FILTER ${filter} TEST_LIST ${name}_${label} DISCOVERY_MODE PRE_TEST
                       DISCOVERY_TIMEOUT 120 PROPERTIES TIMEOUT ${EPIFUSE_TEST_SECONDS} LABELS ${label} ${ARGN})
endfunction()
