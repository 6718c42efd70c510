#pragma once

// Runs external programs, such as kubectl, for a command of paceline.

#include <string>
#include <vector>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"

namespace paceline::cli {

struct ToolResult {
  int exit_code = 0;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

// Runs a program to its end in this environment, with `input` as its standard input. argv[0] is
// looked up in PATH. PL-E045: the program is not there or cannot be started.
Result<ToolResult> RunTool(const std::vector<std::string>& argv, const std::string& input,
                           const Environment& environment);

// Replaces this process by a program (exec), in this environment. Returns only if that fails.
Problem BecomeTool(const std::vector<std::string>& argv, const Environment& environment);

}  // namespace paceline::cli
