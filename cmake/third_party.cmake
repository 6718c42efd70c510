# Third parties, each as one target paceline_dep::NAME. The only file that names a package.
#
# Libraries come from the distribution (Debian 12 and 13, Ubuntu 24.04). pkg-config gives the list
# and its order; each entry is then looked up as an archive (PACELINE_STATIC_DEPS) or a shared
# object, and linked by its full path, so that one switch turns everything static.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

function(paceline_find_library name result)
  if(PACELINE_STATIC_DEPS)
    set(file lib${name}.a)
  else()
    set(file lib${name}.so)
  endif()
  # Ubuntu 24.04 has c-ares's archive under upstream's name, libcares_static.a.
  find_library(PACELINE_LIB_${name} NAMES ${file} lib${name}.a lib${name}_static.a)
  if(NOT PACELINE_LIB_${name})
    message(FATAL_ERROR "${file} is missing: run tools/setup.sh, or install its -dev package")
  endif()
  set(${result} ${PACELINE_LIB_${name}} PARENT_SCOPE)
endfunction()

# paceline_dep(name MODULES pkg-config-module… LIBS library… DEFINES macro… DEPS dependency…)
function(paceline_dep name)
  cmake_parse_arguments(ARG "" "" "MODULES;LIBS;DEFINES;DEPS" ${ARGN})
  set(libs ${ARG_LIBS})
  if(ARG_MODULES)
    execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --static --libs-only-l ${ARG_MODULES}
                    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                    COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "-l[^ ]+" flags "${flags}")
    list(TRANSFORM flags REPLACE "^-l" "")
    list(APPEND libs ${flags})
    # Of these the C library has everything that is used.
    list(REMOVE_ITEM libs atomic dl m pthread rt)
  endif()
  add_library(paceline_dep_${name} INTERFACE)
  add_library(paceline_dep::${name} ALIAS paceline_dep_${name})
  foreach(lib IN LISTS libs)
    paceline_find_library(${lib} path)
    target_link_libraries(paceline_dep_${name} INTERFACE ${path})
  endforeach()
  target_link_libraries(paceline_dep_${name} INTERFACE ${ARG_DEPS})
  target_compile_definitions(paceline_dep_${name} INTERFACE ${ARG_DEFINES})
endfunction()

paceline_dep(absl_status MODULES absl_statusor absl_status DEPS Threads::Threads)
paceline_dep(protobuf MODULES protobuf DEPS Threads::Threads)
paceline_dep(openssl MODULES openssl DEPS Threads::Threads)
# re2 by its own name too: Debian 13's needs Abseil's log libraries, and grpc++.pc does not say so.
paceline_dep(grpc MODULES grpc++ re2 DEPS paceline_dep::protobuf)
paceline_dep(re2 MODULES re2 DEPS Threads::Threads)
paceline_dep(sqlite MODULES sqlite3)
paceline_dep(uring MODULES liburing)
paceline_dep(libevent LIBS event_pthreads event_extra event_core DEPS Threads::Threads)
# Header-only.
paceline_dep(json)
paceline_dep(protozero)
paceline_dep(xxhash)
paceline_dep(toml DEFINES TOML_HEADER_ONLY=1)

find_package(GTest REQUIRED)
add_library(paceline_dep_gtest INTERFACE)
add_library(paceline_dep::gtest ALIAS paceline_dep_gtest)
target_link_libraries(paceline_dep_gtest INTERFACE GTest::gmock GTest::gtest_main)
