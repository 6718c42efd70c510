#pragma once

// `paceline sim`: runs seeds through the simulator.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::sim {

// Exit codes, of every kind of worlds.
inline constexpr int kUsage = 2;             // a wrong flag
inline constexpr int kFindings = 5;          // a violation; with --canary: a canary was not found
inline constexpr uint64_t kReportsMax = 10;  // of failing seeds, in full
inline constexpr uint64_t kCanarySeedsMax = 400;  // within which a canary must be found

// Arguments without the names of program and command. Returns the exit code, 0 if there are no
// findings. With kUsage, *wrong says what is wrong with the arguments, and nothing was printed.
int RunSimCommand(const std::vector<std::string>& args, std::string* wrong);

// One line for each flag.
std::string_view HelpOfSim();

}  // namespace paceline::sim
