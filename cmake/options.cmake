# Language, warnings, sanitizers and the linker; everything a target gets by linking
# paceline_options.

set(PACELINE_SANITIZE "" CACHE STRING "Value of -fsanitize, empty for none")
option(PACELINE_STATIC_DEPS "Link third-party C++ and the C++ runtime statically" OFF)
# Off where strangers build (the wheel), and without effect for compilers newer than those that
# every commit is built with: their new warnings must not stop anybody.
option(PACELINE_WERROR "Warnings are errors" OFF)
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang"
       AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 15))
  set(PACELINE_WERROR_HOLDS OFF)
else()
  set(PACELINE_WERROR_HOLDS ${PACELINE_WERROR})
endif()
option(PACELINE_FUZZ "Build the fuzz targets with libFuzzer (needs clang)" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # the layers below `bindings` end up in a shared object
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")  # no NDEBUG
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")

if(NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED ENV{CMAKE_CXX_COMPILER_LAUNCHER})
  find_program(PACELINE_CCACHE ccache)
  if(PACELINE_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${PACELINE_CCACHE})
  endif()
endif()

find_program(PACELINE_LLD ld.lld)
if(PACELINE_LLD)
  add_link_options(-fuse-ld=lld)
endif()
if(PACELINE_STATIC_DEPS)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
if(PACELINE_SANITIZE)
  add_compile_options(-fsanitize=${PACELINE_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PACELINE_SANITIZE})
  if(PACELINE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It does not see the fences of the pages that processes share, and GCC warns of each.
    add_compile_options(-Wno-tsan)
  endif()
endif()
if(PACELINE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

add_library(paceline_options INTERFACE)
target_include_directories(paceline_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(paceline_options INTERFACE
  $<$<BOOL:${PACELINE_WERROR_HOLDS}>:-Werror> -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual
  -Wextra-semi -Wimplicit-fallthrough -Wunused -Wvla
  -Wno-missing-field-initializers  # designated initializers leave out what has a default
  # File names in messages are the same wherever the checkout stands.
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Warnings that GCC 12 raises falsely inside its own library at -O2 or with sanitizers.
  target_compile_options(paceline_options INTERFACE
    -Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-stringop-overread
    -Wno-array-bounds -Wno-dangling-reference)
endif()
