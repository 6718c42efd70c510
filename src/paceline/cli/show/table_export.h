#pragma once

// `paceline tables export`.

#include "paceline/cli/command.h"

namespace paceline::cli {

// Writes the table that the command line names to a file, and returns the exit code.
int ExportTableFile(Invocation& invocation);

}  // namespace paceline::cli
