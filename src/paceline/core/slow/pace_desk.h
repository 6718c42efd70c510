#pragma once

// What the ranks' steps took, as agents tell it with their heartbeats. A host of the job keeps the
// newest sums of each rank here, and the job hears only of what changes.

#include <optional>
#include <vector>

#include "paceline/core/event.h"
#include "paceline/core/job_state.h"
#include "paceline/diagnose/slow.h"

namespace paceline::core {

class PaceDesk {
 public:
  // Samples of a node. Those of ranks that it has no seat for are left out. A result: other ranks
  // are slow than were told last.
  std::optional<PaceJudged> Take(const JobState& state, NodeId node,
                                 const std::vector<RankSample>& samples);

 private:
  diagnose::SlowWatch watch_;
};

}  // namespace paceline::core
