#pragma once

// `paceline sim`: runs seeds through the simulator.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::sim {

// Exit codes, of every kind of worlds.
inline constexpr int kUsage = 2;     // a wrong flag
inline constexpr int kFindings = 5;  // a violation was found; with --canary: one was not caught
inline constexpr uint64_t kReportsMax = 10;       // of failing seeds, in full
inline constexpr uint64_t kCanarySeedsMax = 400;  // in which a canary must be found

// Arguments without the program's and the command's name. Returns the exit code, 0 when all is
// clean.
int RunSimCommand(const std::vector<std::string>& args);

// A line a flag.
std::string_view HelpOfSim();

}  // namespace paceline::sim
