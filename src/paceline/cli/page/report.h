#pragma once

// Where the page of `paceline report` goes. A job on a cluster is read in its master's pod, and its
// page is written on the machine where the command was typed.

#include <string>

#include "paceline/cli/command.h"

namespace paceline::cli {

// The file that the command line asks for; "-" is standard output.
std::string ReportFile(const Invocation& invocation);

// Writes `text` to that file and says so. Returns the exit code.
int KeepReport(const std::string& text, Invocation& invocation);

}  // namespace paceline::cli
