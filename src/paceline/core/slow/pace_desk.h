#pragma once

// Step times of the ranks, from the agents' heartbeats. The desk keeps the newest sums of each rank
// outside of the job. The job gets an event only when other ranks are slow than before.

#include <optional>
#include <vector>

#include "paceline/core/event.h"
#include "paceline/core/job_state.h"
#include "paceline/diagnose/slow.h"

namespace paceline::core {

class PaceDesk {
 public:
  // Takes the samples of a node, except those of ranks for which it has no seat. Returns the slow
  // ranks if they are others than those that the job has recorded.
  std::optional<PaceJudged> Take(const JobState& state, NodeId node,
                                 const std::vector<RankSample>& samples);

 private:
  diagnose::SlowWatch watch_;
};

}  // namespace paceline::core
