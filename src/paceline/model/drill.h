#pragma once

// Drills on a job that trains.

namespace paceline {

// What a drill takes from a job.
enum class DrillLoss {
  kAgent,  // an agent; its ranks train on
  kRank,   // a rank ends
  kStill,  // a rank lives and stands still
  kNode,   // an agent and all its ranks
};

}  // namespace paceline
