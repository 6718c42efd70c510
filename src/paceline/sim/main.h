#pragma once

// `paceline sim`: runs seeds through the simulator.

#include <string>
#include <vector>

namespace paceline::sim {

// Arguments without the program's and the command's name. Returns the exit code: 0 all clean, 2 a
// wrong flag, 5 a violation was found (with --canary: a canary was not caught).
int RunSimCommand(const std::vector<std::string>& args);

}  // namespace paceline::sim
