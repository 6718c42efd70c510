# add_fuzz_target(spec_file DEPS wire)
#
# tests/fuzz/spec_file.cc defines LLVMFuzzerTestOneInput; tests/fuzz/corpus/spec_file/ holds inputs,
# good and hostile. With the preset `fuzz` it becomes spec_file_fuzz, to run as long as you like:
#
#   build/fuzz/tests/fuzz/spec_file_fuzz tests/fuzz/corpus/spec_file
#
# With every other preset it becomes the ctest spec_file_corpus, which replays the corpus with
# truncations and seeded mutations of it, so that what was found once stays found. It needs no clang
# to go on for longer: spec_file_corpus tests/fuzz/corpus/spec_file 100000.

if(NOT PACELINE_FUZZ)
  add_library(fuzz_replay OBJECT ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc)
  target_link_libraries(fuzz_replay PUBLIC paceline_options)
  add_custom_target(fuzz_corpora)
endif()

function(add_fuzz_target name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  paceline_targets(deps ${ARG_DEPS})
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
  if(NOT IS_DIRECTORY ${corpus})
    message(FATAL_ERROR "the fuzz target ${name} has no corpus in ${corpus}")
  endif()
  if(PACELINE_FUZZ)
    add_executable(${name}_fuzz ${name}.cc)
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name}_fuzz PRIVATE ${deps})
  else()
    add_executable(${name}_corpus ${name}.cc)
    target_link_libraries(${name}_corpus PRIVATE fuzz_replay paceline::base ${deps})
    add_dependencies(fuzz_corpora ${name}_corpus)
    add_test(NAME ${name}_corpus COMMAND ${name}_corpus ${corpus})
    set_tests_properties(${name}_corpus PROPERTIES LABELS "fuzz;long" TIMEOUT 300)
  endif()
endfunction()
