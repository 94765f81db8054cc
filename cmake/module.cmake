# module(NAME [COLD] [NO_THREADS] SOURCES … TESTS … TEST_SHARDS … DEPS … LIBS …)
#
# One static library `paceline_NAME`, alias `paceline::NAME`, and one test program `NAME_test` whose cases ctest runs
# one by one. DEPS are other modules (the table in docs/architecture.md says which are allowed), LIBS are outside
# libraries. A source listed here is the only way into the build: nothing is globbed. COLD: nothing in it is worth the
# time that g++ needs for -O3. NO_THREADS: none in it and in its tests, which the thread sanitizer's build leaves out.

set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1")

add_library(paceline_options INTERFACE)
target_compile_features(paceline_options INTERFACE cxx_std_20)
# g++ 12 sees things at -O3 that are not there: writes past the end inside fmt, strings that overlap themselves in
# operator+ (gcc bug 105651), members of designated initialisers that were not set. Hence the three that are off.
target_compile_options(paceline_options INTERFACE
  $<BUILD_INTERFACE:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion;-Wno-stringop-overflow;-Wno-restrict;-Wno-maybe-uninitialized>)
if(PACELINE_WERROR)
  target_compile_options(paceline_options INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(PACELINE_SANITIZE)
  target_compile_options(paceline_options INTERFACE $<BUILD_INTERFACE:-fsanitize=${PACELINE_SANITIZE};-fno-sanitize-recover=all>)
  target_link_options(paceline_options INTERFACE $<BUILD_INTERFACE:-fsanitize=${PACELINE_SANITIZE}>)
endif()

# compile_quickly(TARGET): its build matters more than its speed. What g++ 12 sees in operator+ at -O3 (above) it reports
# under another name at -O1. A precompiled header must have been compiled with the same -O: g++ 12 crashes otherwise.
function(compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1;-Wno-array-bounds> $<$<CONFIG:Sanitize>:-O0>)
endfunction()

# precompile_outside_headers(TARGET): those of outside libraries that take long to read and that most of the target's
# sources include, unless -DPACELINE_UNITY=OFF (docs/decisions/0015).
function(precompile_outside_headers target)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(NOT PACELINE_UNITY OR count LESS 3)  # it takes as long as they would
    return()
  endif()
  set(libraries "")
  set(waiting ${target})
  while(waiting)
    list(POP_FRONT waiting next)
    if(next IN_LIST libraries)
      continue()
    endif()
    list(APPEND libraries ${next})
    if(next MATCHES "^paceline_" OR next STREQUAL ${target})
      get_target_property(linked ${next} LINK_LIBRARIES)
      get_target_property(offered ${next} INTERFACE_LINK_LIBRARIES)
      list(APPEND waiting ${linked} ${offered})
    endif()
  endwhile()
  set(headers <algorithm> <chrono> <functional> <map> <memory> <optional> <span> <string> <vector>)
  foreach(pair fmt::fmt|fmt/format.h nlohmann_json::nlohmann_json|nlohmann/json.hpp CLI11::CLI11|CLI/CLI.hpp GTest::gtest|gtest/gtest.h)
    string(REPLACE "|" ";" pair ${pair})
    list(GET pair 0 library)
    list(GET pair 1 header)
    if(library IN_LIST libraries)
      list(APPEND headers <${header}>)
    endif()
  endforeach()
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

function(module name)
  cmake_parse_arguments(arg "COLD;NO_THREADS" "TEST_SHARDS" "SOURCES;TESTS;DEPS;LIBS" ${ARGN})
  set(target paceline_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(paceline::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC paceline_options ${arg_LIBS})
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(${target} PUBLIC paceline_${dep})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY PACELINE_MODULES ${target})
  if(arg_COLD)
    compile_quickly(${target})
  endif()
  if(NOT name STREQUAL torch)  # has its own
    precompile_outside_headers(${target})
  endif()
  if(PACELINE_TESTS AND arg_TESTS AND NOT (arg_NO_THREADS AND PACELINE_SANITIZE STREQUAL thread))
    test_program(${name}_test SOURCES ${arg_TESTS} DEPS ${name} SHARDS ${arg_TEST_SHARDS})
  endif()
endfunction()

# test_program(NAME SOURCES … DEPS … TIMEOUT … SHARDS …): a GoogleTest program; cases named Slow… carry the label `slow`.
# SHARDS: ctest runs the cases in so many processes instead of one by one, for a program that is slow to start.
function(test_program name)
  cmake_parse_arguments(arg "" "TIMEOUT;SHARDS" "SOURCES;DEPS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE paceline_options GTest::gtest GTest::gtest_main)
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(${name} PRIVATE paceline_${dep})
  endforeach()
  compile_quickly(${name})
  if(NOT torch IN_LIST arg_DEPS)  # reuses that of the module
    precompile_outside_headers(${name})
  endif()
  if(arg_SHARDS)
    foreach(shard RANGE 1 ${arg_SHARDS})
      math(EXPR index "${shard} - 1")
      add_test(NAME ${name}.part_${shard}_of_${arg_SHARDS} COMMAND ${name} --gtest_filter=-*Slow*)
      set_tests_properties(${name}.part_${shard}_of_${arg_SHARDS} PROPERTIES TIMEOUT 600
                           ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
    endforeach()
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${name}." TEST_FILTER "-*Slow*" DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT ${arg_TIMEOUT})
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${name}." TEST_FILTER "*Slow*" TEST_LIST ${name}_slow DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT 600 LABELS slow)
endfunction()
