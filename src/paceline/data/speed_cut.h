#pragma once

// Cuts a step among ranks of different speed, so that all end at the same time.
//
// All ranks see the same times in the same order and run this machine, so they need no other
// agreement. The machine decides only the shares, not the samples of a step.
//
// The cut changes if three things hold: the predicted gain exceeds `gain_least`; it exceeds the
// measurement error; and the cost of the last change is won back within as many steps as have
// passed since. So frequent changes must pay off soon.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/data/speed_model.h"

namespace paceline {

struct ShareBounds {
  uint64_t least = 1;  // samples of a rank in a step
  uint64_t most = 0;
};

// The shares of `batch` samples with the smallest maximum of times, in whole samples. On a tie,
// lower ranks get more. The bounds must allow it: ranks * least <= batch <= ranks * most.
std::vector<uint64_t> CutForEqualTimes(const std::vector<LinearTime>& ranks, uint64_t batch,
                                       ShareBounds bounds);

// The same with separate bounds for each rank: sum of least <= batch <= sum of most.
std::vector<uint64_t> CutForEqualTimes(const std::vector<LinearTime>& ranks, uint64_t batch,
                                       const std::vector<ShareBounds>& bounds);

// Scales shares to a step of another size, in proportion, within one sample. Equal shares if a rank
// would have fewer than `least`. The shares' sum must be above 0.
std::vector<uint64_t> ScaleShares(const std::vector<uint64_t>& shares, uint64_t size,
                                  uint64_t least);

struct SpeedCutSpec {
  uint64_t global_batch = 0;
  uint64_t world_size = 1;
  ShareBounds bounds;
  double gain_least = 0.03;           // of a step's time
  std::vector<uint64_t> shares = {};  // the first shares; empty: equal ones
};

class SpeedCut {
 public:
  // kInvalid: the rule that the spec violates, as one sentence.
  static Result<SpeedCut> Make(SpeedCutSpec spec);

  // Takes each rank's time for one of the `steps` steps since the last look, all with one cut.
  // Returns a change if one pays off. If a rank measured nothing (0 seconds), or the number of
  // times is wrong, the look is ignored.
  struct Change {
    std::vector<uint64_t> shares;
    double gain = 0;      // of a step's time, predicted
    std::string because;  // one sentence
  };
  std::optional<Change> Look(const std::vector<StepTime>& by_rank, uint64_t steps);

  // Takes each rank's time for its first step with new shares, which may be slower than later ones.
  void Switched(const std::vector<StepTime>& by_rank);

  const std::vector<uint64_t>& shares() const { return shares_; }
  const std::vector<SpeedModel>& models() const { return models_; }
  double switch_seconds() const { return switch_seconds_; }

 private:
  explicit SpeedCut(SpeedCutSpec spec);

  std::vector<LinearTime> Lines() const;
  std::string Because(const std::vector<LinearTime>& lines, double now, double then) const;

  SpeedCutSpec spec_;
  std::vector<uint64_t> shares_;
  std::vector<SpeedModel> models_;
  uint64_t steps_ = 0;         // since the last change
  double switch_seconds_ = 0;  // estimated cost of a change
};

}  // namespace paceline
