# add_layer(core
#   SOURCES job.cc job.h …        headers must compile alone
#   TESTS budget_test.cc …        one gtest binary core_test; omitted when empty
#   DEPS model base …             layers by name, third parties as paceline_dep::x; for headers
#   PRIVATE_DEPS …                what only the .cc files need
#   TEST_DEPS …                   what only the tests need
#   LONG_CASES Suite.Case …       GoogleTest patterns of slow cases, for `make test-all`
#   TEST_LABELS slow …)           ctest labels
#
# Makes the static library paceline_core (alias paceline::core) and the test core_links_alone, which
# links every object of the library with nothing but its declared dependencies (an ordinary link of
# a static library hides undefined symbols). Each header without a .cc of its name is compiled
# alone, twice in one unit, by the target headers_alone: without code and without sanitizers, which
# is all that question needs and a third of the time of CMake's own VERIFY_INTERFACE_HEADER_SETS.
# The others come first in their .cc, which is the same proof; tools/tidy.py sees to it.

function(paceline_targets result)
  set(targets)
  foreach(dep IN LISTS ARGN)
    if(dep MATCHES "::" OR TARGET ${dep})
      list(APPEND targets ${dep})
    else()
      list(APPEND targets paceline::${dep})
    endif()
  endforeach()
  set(${result} ${targets} PARENT_SCOPE)
endfunction()

add_custom_target(headers_alone)

function(add_header_checks layer)
  set(library paceline_${layer})
  set(includes "$<TARGET_PROPERTY:${library},INCLUDE_DIRECTORIES>")
  set(definitions "$<TARGET_PROPERTY:${library},COMPILE_DEFINITIONS>")
  set(stamps)
  foreach(header IN LISTS ARGN)
    string(REGEX REPLACE "h$" "cc" twin ${header})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${twin})
      continue()
    endif()
    string(MAKE_C_IDENTIFIER ${header} name)
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cc)
    set(stamp ${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.ok)
    set(line "#include \"paceline/${layer}/${header}\"\n")
    file(CONFIGURE OUTPUT ${unit} CONTENT "${line}${line}")
    add_custom_command(
      OUTPUT ${stamp}
      COMMAND ${CMAKE_CXX_COMPILER} -std=c++${CMAKE_CXX_STANDARD} -fsyntax-only -w
              "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>"
              "-I$<JOIN:${includes},;-I>" -MD -MF ${stamp}.d -MT ${stamp} ${unit}
      COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
      DEPENDS ${unit} ${header}
      DEPFILE ${stamp}.d
      COMMENT "Compiling ${layer}/${header} alone"
      COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND stamps ${stamp})
  endforeach()
  add_custom_target(${layer}_headers_alone DEPENDS ${stamps})
  if(TARGET paceline_proto)
    add_dependencies(${layer}_headers_alone paceline_proto)  # which generates some of them
  endif()
  add_dependencies(headers_alone ${layer}_headers_alone)
endfunction()

set_property(GLOBAL PROPERTY PACELINE_TEST_BINARIES "")

# Most of a file's compile time is reading headers: gRPC's, Abseil's, the library's. Ten files that
# are compiled together cost what three cost apart, and twenty together cost a fifth less than in
# two units. Twenty take about 1 GB of memory. The wheel and `make test` are built that way. Whoever
# works on a file would wait for nineteen others: off in the preset dev.
option(PACELINE_JOIN_UNITS "Compile the files of a layer several at a time" OFF)

function(join_units target)
  if(PACELINE_JOIN_UNITS)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 20)
    # GCC takes a .cc that another file includes for a header, whose types must have linkage.
    target_compile_options(${target} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# Layers whose tests wait for sockets and processes and not for the processor: with sanitizers, -O1
# would cost them a third more time to compile than it saves (core_test without it: five times).
set(PACELINE_COLD_LAYERS wire master agent client cli platform)

# The simulator, and the layers that link gRPC. To compile them costs twice what all others cost.
# `make test` runs their tests from the optimized objects of the wheel (the target heavy_tests of
# the preset release), and `make test-all` runs them again with sanitizers. Their ctest entries have
# the label `heavy`. The target light_tests builds the tests of all other layers.
set(PACELINE_HEAVY_LAYERS wire master agent sim cli platform)
add_custom_target(light_tests)
add_custom_target(heavy_tests)

# Layers that look into raw memory keep the checks of each pointer before its use (null, alignment,
# size and type of what it points to). In the others such a pointer comes from a reference or from
# the heap, where the address sanitizer finds the same mistakes, and without these checks they
# compile in two thirds of the time. The fuzz targets have all checks everywhere.
set(PACELINE_RAW_LAYERS data ps ckpt client)

# Only for a test that hangs: with sanitizers the slowest layer takes a minute on two idle cores.
set(PACELINE_TEST_SECONDS_MAX 900)

function(add_layer layer)
  cmake_parse_arguments(ARG "" "" "SOURCES;TESTS;DEPS;PRIVATE_DEPS;TEST_DEPS;LONG_CASES;TEST_LABELS"
                        ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "add_layer(${layer}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  set(headers ${ARG_SOURCES})
  list(FILTER headers INCLUDE REGEX "\\.h$")
  paceline_targets(public ${ARG_DEPS})
  paceline_targets(private ${ARG_PRIVATE_DEPS})
  paceline_targets(test_deps ${ARG_TEST_DEPS})

  add_library(paceline_${layer} STATIC ${ARG_SOURCES})
  add_library(paceline::${layer} ALIAS paceline_${layer})
  target_link_libraries(paceline_${layer} PUBLIC paceline_options ${public} PRIVATE ${private})
  set_target_properties(paceline_${layer} PROPERTIES LINKER_LANGUAGE CXX)
  add_header_checks(${layer} ${headers})
  set(extra)
  if(layer IN_LIST PACELINE_COLD_LAYERS)
    set(extra $<$<CONFIG:Debug>:-O0>)
  endif()
  if(PACELINE_SANITIZE MATCHES undefined AND NOT PACELINE_FUZZ
     AND NOT layer IN_LIST PACELINE_RAW_LAYERS)
    list(APPEND extra -fno-sanitize=null,alignment,object-size,vptr)
  endif()
  target_compile_options(paceline_${layer} PRIVATE ${extra})
  # Not the lowest one: the linker takes from it, file by file, what the Python module needs, and
  # Abseil must stay out of that.
  if(NOT layer STREQUAL "base")
    join_units(paceline_${layer})
  endif()

  set(group light_tests)
  set(labels ${ARG_TEST_LABELS})
  if(layer IN_LIST PACELINE_HEAVY_LAYERS)
    set(group heavy_tests)
    list(APPEND labels heavy)
  endif()

  set(main ${PROJECT_BINARY_DIR}/empty_main.cc)
  file(CONFIGURE OUTPUT ${main} CONTENT "int main() { return 0; }\n")
  add_executable(${layer}_links_alone ${main})
  target_link_libraries(${layer}_links_alone PRIVATE
    $<LINK_LIBRARY:WHOLE_ARCHIVE,paceline_${layer}> paceline_options)
  add_test(NAME ${layer}_links_alone COMMAND ${layer}_links_alone)
  set_tests_properties(${layer}_links_alone PROPERTIES LABELS "${labels}")
  add_dependencies(${group} ${layer}_links_alone)

  if(ARG_TESTS)
    add_executable(${layer}_test ${ARG_TESTS})
    target_link_libraries(${layer}_test PRIVATE
      paceline_${layer} ${private} ${test_deps} paceline_dep::gtest)
    # The code of a test is no subject of it: unoptimized, it compiles in half the time. The
    # simulator's tests run whole swarms, and those of ckpt write much.
    set(test_options ${extra})
    if(NOT layer MATCHES "^(sim|ckpt)$")
      list(APPEND test_options -O0)
    endif()
    target_compile_options(${layer}_test PRIVATE ${test_options})
    join_units(${layer}_test)
    add_dependencies(${group} ${layer}_test)
    target_compile_definitions(${layer}_test PRIVATE
      PACELINE_TESTDATA_DIR="${CMAKE_CURRENT_SOURCE_DIR}/testdata")
    # One binary, two entries: what the first leaves out by its filter is all that the second runs.
    list(JOIN ARG_LONG_CASES ":" long)
    set(filter)
    if(long)
      set(filter --gtest_filter=-${long})
      add_test(NAME ${layer}_long COMMAND ${layer}_test --gtest_brief=1 --gtest_filter=${long})
      set_tests_properties(${layer}_long PROPERTIES TIMEOUT ${PACELINE_TEST_SECONDS_MAX}
                           LABELS "unit;long;${labels}")
    endif()
    add_test(NAME ${layer}_test COMMAND ${layer}_test --gtest_brief=1 ${filter})
    set_tests_properties(${layer}_test PROPERTIES TIMEOUT ${PACELINE_TEST_SECONDS_MAX}
                         LABELS "unit;${labels}")
  endif()
endfunction()
