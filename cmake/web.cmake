# The page's files, web/*.js and web/page.css, as one C++ file: nobody needs node to build it.
#
#   embed_page(result)   makes that file in the build folder; `result` is its path
#   cmake -D SOURCE=… -D OUTPUT=… -P web.cmake   writes that file
#
# A browser loads the modules one by one from a server. A file that is mailed has only one script,
# so the modules are joined in the order of web/modules.txt, without their lines of import and the
# word export. Names must therefore differ between modules; tests/web checks that. report.js or
# live.js comes last and starts the page.

function(embed_page result)
  set(source ${PROJECT_SOURCE_DIR}/web)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/page_assets.cc)
  file(GLOB files CONFIGURE_DEPENDS ${source}/*.js ${source}/*.css ${source}/modules.txt)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D SOURCE=${source} -D OUTPUT=${output} -P
            ${PROJECT_SOURCE_DIR}/cmake/web.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/web.cmake
    COMMENT "Embedding the page")
  set(${result} ${output} PARENT_SCOPE)
endfunction()

# Adds the text of a file, as a C++ array of bytes and its hash, to `code`.
function(embed_text name file)
  file(READ ${file} hex HEX)
  file(SHA256 ${file} hash)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND code "constexpr unsigned char k${name}[] = {${bytes}};\n")
  string(APPEND code "constexpr char k${name}Sha256[] = \"${hash}\";\n")
  set(code "${code}" PARENT_SCOPE)
endfunction()

function(write_assets)
  file(STRINGS ${SOURCE}/modules.txt modules)
  set(last_report report.js)
  set(last_live feed.js live.js)
  foreach(entry report live)
    set(joined_${entry} ${OUTPUT}.${entry}.js)
    file(WRITE ${joined_${entry}} "")
    foreach(module IN LISTS modules last_${entry})
      file(READ ${SOURCE}/${module} text)
      string(REGEX REPLACE "(^|\n)import [^\n]*" "\\1" text "${text}")
      string(REGEX REPLACE "(^|\n)export " "\\1" text "${text}")
      file(APPEND ${joined_${entry}} "${text}")
    endforeach()
  endforeach()
  set(code "#include \"paceline/cli/page/assets.h\"\n\nnamespace paceline::cli {\nnamespace {\n\n")
  embed_text(Script ${joined_report})
  embed_text(LiveScript ${joined_live})
  embed_text(Style ${SOURCE}/page.css)
  file(WRITE ${OUTPUT} "${code}
template <size_t kBytes>
std::string_view TextOf(const unsigned char (&bytes)[kBytes]) {
  return {reinterpret_cast<const char*>(bytes), kBytes};
}

}  // namespace

PageAssets EmbeddedPage() {
  return {TextOf(kScript), kScriptSha256, TextOf(kLiveScript), kLiveScriptSha256, TextOf(kStyle),
          kStyleSha256};
}

}  // namespace paceline::cli
")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  write_assets()
endif()
