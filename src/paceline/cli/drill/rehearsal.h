#pragma once

// One drill: a job of its own is started, struck, watched through its events, and ended.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/drill/kinds.h"
#include "paceline/cli/drill/seen.h"

namespace paceline::cli {

inline constexpr uint32_t kDrillRanks = 4;  // on one node
inline constexpr uint32_t kStruckRank = 1;
// Ranks that hang in their first 20 steps are named and never restarted.
inline constexpr int64_t kStruckStep = 30;

// What all drills of one command share.
struct DrillStage {
  std::string dir;      // this command's own; it has the scripts, and a folder for each kind
  std::string program;  // paceline
  Environment environment;
  std::string cwd;                      // of the script
  std::vector<std::string> own_script;  // of the user, with its arguments; empty: the drill's
  int64_t ranks = kDrillRanks;          // on a node
};

struct Played {
  Struck struck;
  Seen seen;
  std::string trouble;  // what went wrong beside what the events tell; "": nothing
};

// The run directory of that kind's job.
std::string RunDirOfDrill(const DrillStage& stage, const DrillKind& kind);

// Ends the job before it returns. Breaks off soon after `interrupted` becomes true.
Played Rehearse(const DrillStage& stage, const DrillKind& kind, const volatile bool* interrupted);

}  // namespace paceline::cli
