# module(NAME SOURCES … TESTS … DEPS … LIBS …)
#
# One static library `paceline_NAME`, alias `paceline::NAME`, and one test program `NAME_test` whose cases ctest runs
# one by one. DEPS are other modules (the table in docs/architecture.md says which are allowed), LIBS are outside
# libraries. A source listed here is the only way into the build: nothing is globbed.

set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g -fno-omit-frame-pointer")
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

function(module name)
  cmake_parse_arguments(arg "" "" "SOURCES;TESTS;DEPS;LIBS" ${ARGN})
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
  if(PACELINE_TESTS AND arg_TESTS)
    test_program(${name}_test SOURCES ${arg_TESTS} DEPS ${name})
  endif()
endfunction()

# test_program(NAME SOURCES … DEPS … TIMEOUT …): a GoogleTest program; cases named Slow… carry the label `slow`.
function(test_program name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE paceline_options GTest::gtest GTest::gtest_main)
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(${name} PRIVATE paceline_${dep})
  endforeach()
  gtest_discover_tests(${name} TEST_PREFIX "${name}." TEST_FILTER "-*Slow*" DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT ${arg_TIMEOUT})
  gtest_discover_tests(${name} TEST_PREFIX "${name}." TEST_FILTER "*Slow*" TEST_LIST ${name}_slow DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT 600 LABELS slow)
endfunction()
