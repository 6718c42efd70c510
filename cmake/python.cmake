# add_python_module(_native SOURCES module.cc … DEPS client …)
#
# The extension module of the Python package. Left out of sanitizer builds: an interpreter that was
# not built with the sanitizer cannot load it. nanobind comes from PyPI, so it is asked from the
# Python that will import the module: .venv's, or the one that builds the wheel.

function(add_python_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(PACELINE_SANITIZE)
    return()
  endif()
  if(NOT SKBUILD AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
    set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  endif()
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir RESULT_VARIABLE result
                  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT result EQUAL 0)
    if(SKBUILD)
      message(FATAL_ERROR "${Python_EXECUTABLE} has no nanobind")
    endif()
    message(STATUS "No nanobind in ${Python_EXECUTABLE}: the Python module is not built")
    return()
  endif()
  find_package(nanobind CONFIG REQUIRED)
  nanobind_add_module(${name} NB_STATIC NOMINSIZE ${ARG_SOURCES})
  join_units(${name})
  paceline_targets(deps ${ARG_DEPS})
  target_link_libraries(${name} PRIVATE paceline_options ${deps})
  # Its own copy of the C++ library stays its own: torch brings another one into the process.
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
endfunction()
