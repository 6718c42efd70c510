#pragma once

// A seed draws everything: the cluster, the job, the script, the network, the faults and their
// times. All seeds differ, so a thousand of them reach cases that no one would write down.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/sim/options.h"

namespace paceline::sim {

// Flags of the command line that override what a seed draws.
struct Overrides {
  std::vector<std::string> only;            // only these kinds of faults; empty: drawn
  std::vector<std::string> without;         // these kinds of faults are left out
  std::optional<std::vector<size_t>> keep;  // of the remaining strikes only these, by number
  std::optional<Duration> until;            // faults end here
  std::optional<uint32_t> nodes;            // upper limit of hosts
  std::optional<uint64_t> crash_at_record;
  std::optional<bool> saves;  // whether there is a Checkpointer; else in a third of the seeds
  Canary canary = Canary::kNone;
};

Options Draw(uint64_t seed, const Overrides& overrides);

// Arguments of `paceline sim` that repeat this run.
std::string CommandLine(uint64_t seed, const Overrides& overrides);

}  // namespace paceline::sim
