# add_proto(NAME FILES paceline/v1/master.proto …)
#
# Static library paceline_NAME (alias paceline::NAME) of the messages and gRPC services in proto/.
# Generated code is compiled without our warnings.

function(add_proto name)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  find_program(PACELINE_PROTOC protoc REQUIRED)
  find_program(PACELINE_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)
  set(out ${PROJECT_BINARY_DIR}/proto)
  file(MAKE_DIRECTORY ${out})
  set(generated)
  set(services)
  foreach(file IN LISTS ARG_FILES)
    string(REGEX REPLACE "\\.proto$" "" stem ${file})
    set(files ${out}/${stem}.pb.cc ${out}/${stem}.pb.h ${out}/${stem}.grpc.pb.cc
              ${out}/${stem}.grpc.pb.h)
    add_custom_command(
      OUTPUT ${files}
      COMMAND ${PACELINE_PROTOC} -I ${PROJECT_SOURCE_DIR}/proto --cpp_out=${out} --grpc_out=${out}
              --plugin=protoc-gen-grpc=${PACELINE_GRPC_PLUGIN} ${file}
      DEPENDS ${PROJECT_SOURCE_DIR}/proto/${file}
      COMMENT "Generating ${file}" VERBATIM)
    list(APPEND generated ${files})
    list(APPEND services ${out}/${stem}.grpc.pb.cc)
  endforeach()
  add_library(paceline_${name} STATIC ${generated})
  if(PACELINE_JOIN_UNITS)
    # Compiled together, the services cost a third: most of it is gRPC's headers. The messages
    # cannot be joined, because protoc gives their static tables the same names in each file.
    set_target_properties(paceline_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set_source_files_properties(${services} PROPERTIES UNITY_GROUP services)
  endif()
  add_library(paceline::${name} ALIAS paceline_${name})
  target_include_directories(paceline_${name} SYSTEM PUBLIC ${out})
  target_link_libraries(paceline_${name} PUBLIC paceline_dep::grpc)
  # Generated code is not ours to check.
  target_compile_options(paceline_${name} PRIVATE -w $<$<CONFIG:Debug>:-O0 -fno-sanitize=all>)
endfunction()
