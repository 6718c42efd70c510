# The files of log_classes/ as one C++ file.
#
#   embed_log_classes(result family…)   makes that file in the build folder; `result` is its path
#   cmake -D SOURCE=… -D OUTPUT=… -D FAMILIES=… -P log_classes.cmake   writes that file

function(embed_log_classes result)
  set(source ${PROJECT_SOURCE_DIR}/log_classes)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/builtin_text.cc)
  list(TRANSFORM ARGN REPLACE "(.+)" "${source}/\\1.toml" OUTPUT_VARIABLE files)
  list(JOIN ARGN "," families)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D SOURCE=${source} -D OUTPUT=${output} -D FAMILIES=${families} -P
            ${PROJECT_SOURCE_DIR}/cmake/log_classes.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/log_classes.cmake
    COMMENT "Embedding the classes of failures" VERBATIM)
  set(${result} ${output} PARENT_SCOPE)
endfunction()

function(write_log_classes)
  set(code "#include \"paceline/logclass/builtin.h\"\n\n")
  string(APPEND code "namespace paceline::logclass {\nnamespace {\n\n")
  set(rows "")
  string(REPLACE "," ";" families "${FAMILIES}")
  foreach(family IN LISTS families)
    file(READ ${SOURCE}/${family}.toml hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
    string(APPEND code "constexpr char k_${family}[] = {${bytes}};\n")
    string(APPEND rows
           "      {\"log_classes/${family}.toml\", {k_${family}, sizeof(k_${family})}},\n")
  endforeach()
  file(WRITE ${OUTPUT} "${code}
}  // namespace

std::vector<RuleText> BuiltinTexts() {
  return {
${rows}  };
}

}  // namespace paceline::logclass
")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  write_log_classes()
endif()
