#pragma once

// Step times of a rank, as sums since its attempt began, and what follows from a comparison with
// its peers'.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/ids.h"

namespace paceline {

// The times of a rank's steps. Each nanosecond counts in at most one of own, data and waited.
// Checkpoints, evaluation and compilation count in none, because one rank often does them for all.
struct StepSums {
  uint64_t steps = 0;  // number of counted steps
  Duration whole;      // from step to step
  Duration own;        // the script's own work: neither data nor waiting
  Duration data;       // in the loader
  Duration waited;     // in collectives
  // The rank sends and receives point to point, as in a pipeline. The work of pipeline stages
  // differs by design, so no rank of the world is compared with the others.
  bool is_piped = false;
  bool operator==(const StepSums&) const = default;
};

// A block of steps. The longest step of each block is not counted, so that a single interruption
// makes no rank look slow. If one rank prolongs a step, all ranks of its world wait in it, so they
// leave out the same step.
inline constexpr uint64_t kBlockSteps = 8;
// An agent sends the sums of a rank at most once in this time.
inline constexpr Duration kSampleTime = Duration::Milliseconds(500);

// Adds up steps, block by block.
class StepMeter {
 public:
  // Adds the times of one step; `step.steps` is not read. Returns true if a block is complete, so
  // sums() has grown.
  bool Add(const StepSums& step);
  const StepSums& sums() const { return sums_; }

 private:
  StepSums sums_;
  StepSums block_;  // without its longest step so far
  StepSums longest_;
  uint64_t in_block_ = 0;
};

// The sums of one rank at one moment, as its agent read them.
struct RankSample {
  Generation generation;
  Rank rank;
  StepSums sums;
  // The ranks share a global batch, so a step is the same work in a world of any size.
  bool shares_batch = false;
  bool operator==(const RankSample&) const = default;
};

// Ranks whose own work takes longer than that of their peers, so that all others wait for them.
struct SlowFinding {
  std::vector<Rank> ranks;  // one, or all of `node`
  std::string node;         // where they run
  bool is_whole_node = false;
  bool is_data = false;    // it is the loader's time that is longer
  double excess = 0;       // of their own work over their peers': 0.21 is 21 %
  double cost = 0;         // of the speed: 0.17 is 17 %
  double steps_a_day = 0;  // that are lost by it
  bool operator==(const SlowFinding&) const = default;
};

}  // namespace paceline
