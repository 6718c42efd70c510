# add_layer(core
#   SOURCES job.cc job.h …        headers must compile alone
#   TESTS job_test.cc …           one gtest binary core_test; omitted when empty
#   DEPS model base …             layers by name, third parties as paceline_dep::x; for headers
#   PRIVATE_DEPS …                what only the .cc files need
#   TEST_DEPS …                   what only the tests need
#   TEST_LABELS slow …)           ctest labels
#
# Makes the static library paceline_core (alias paceline::core) and the test core_links_alone, which
# links every object of the library with nothing but its declared dependencies (an ordinary link of
# a static library hides undefined symbols). Its headers join all_verify_interface_header_sets.

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

set_property(GLOBAL PROPERTY PACELINE_TEST_BINARIES "")

function(add_layer layer)
  cmake_parse_arguments(ARG "" "" "SOURCES;TESTS;DEPS;PRIVATE_DEPS;TEST_DEPS;TEST_LABELS" ${ARGN})
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
  target_sources(paceline_${layer} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${headers})
  set_target_properties(paceline_${layer} PROPERTIES
    LINKER_LANGUAGE CXX VERIFY_INTERFACE_HEADER_SETS ON)

  set(main ${PROJECT_BINARY_DIR}/empty_main.cc)
  file(CONFIGURE OUTPUT ${main} CONTENT "int main() { return 0; }\n")
  add_executable(${layer}_links_alone ${main})
  target_link_libraries(${layer}_links_alone PRIVATE
    $<LINK_LIBRARY:WHOLE_ARCHIVE,paceline_${layer}> paceline_options)
  add_test(NAME ${layer}_links_alone COMMAND ${layer}_links_alone)

  if(ARG_TESTS)
    add_executable(${layer}_test ${ARG_TESTS})
    target_link_libraries(${layer}_test PRIVATE
      paceline_${layer} ${private} ${test_deps} paceline_dep::gtest)
    target_compile_definitions(${layer}_test PRIVATE
      PACELINE_TESTDATA_DIR="${CMAKE_CURRENT_SOURCE_DIR}/testdata")
    add_test(NAME ${layer}_test COMMAND ${layer}_test --gtest_brief=1)
    set_tests_properties(${layer}_test PROPERTIES TIMEOUT 300 LABELS "unit;${ARG_TEST_LABELS}")
  endif()
endfunction()
