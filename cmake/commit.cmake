# cmake -D SOURCE=… -D HEADER=… -P commit.cmake: writes which commit is being built, and touches the
# header only when that changed. Without git, or outside a checkout, it is "unknown".
execute_process(
  COMMAND git -C ${SOURCE} describe --always --dirty --exclude=*
  OUTPUT_VARIABLE commit
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET
  RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define PACELINE_COMMIT \"${commit}\"\n" @ONLY)
