#pragma once

// A seed draws everything: the cluster, the job, the script, the network, which faults strike and
// when. No two seeds are alike, so a thousand of them visit corners that nobody would write down.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/sim/options.h"

namespace paceline::sim {

// What the command line takes away from a draw, or plants into it.
struct Wishes {
  std::vector<std::string> only;     // these fault kinds alone are drawn; empty: a draw of kinds
  std::vector<std::string> without;  // strikes of these kinds are left out
  std::optional<std::vector<size_t>> keep;  // of what is left, only these strikes, by number
  std::optional<Duration> until;            // faults end here
  std::optional<uint32_t> nodes;            // at most so many hosts
  std::optional<uint64_t> crash_at_record;
  std::optional<bool> saves;  // with a Checkpointer, or without; else a third of the seeds
  Canary canary = Canary::kNone;
};

Options Draw(uint64_t seed, const Wishes& wishes);

// The arguments of `paceline sim` that repeat this run.
std::string CommandLine(uint64_t seed, const Wishes& wishes);

}  // namespace paceline::sim
