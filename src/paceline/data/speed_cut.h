#pragma once

// How a step is cut among ranks of different speed, so that all end at the same time.
//
// All ranks look at the same times, in the same order, and each runs this machine; nothing is
// agreed upon beyond that. What a step reads is not its business: only who reads how much of it.
//
// A cut is changed when the step is predicted to become shorter by more than `gain_least` and by
// more than the measurements are unsure, and when what the last change cost is won back within as
// many steps as passed since: shares that change often must pay soon.

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

// The shares of `batch` samples whose largest time is the smallest possible, in whole samples. Of
// equal ones, lower ranks get more. The bounds must leave room: ranks * least <= batch <= ranks *
// most.
std::vector<uint64_t> CutForEqualTimes(const std::vector<LinearTime>& ranks, uint64_t batch,
                                       ShareBounds bounds);

// The same with bounds of each rank. They must leave room: sum of least <= batch <= sum of most.
std::vector<uint64_t> CutForEqualTimes(const std::vector<LinearTime>& ranks, uint64_t batch,
                                       const std::vector<ShareBounds>& bounds);

// The same cut of a step of another size, in proportion, which differs by less than a sample;
// evenly when a rank would have fewer than `least`. The shares' sum is above 0.
std::vector<uint64_t> ScaleShares(const std::vector<uint64_t>& shares, uint64_t size,
                                  uint64_t least);

struct SpeedCutSpec {
  uint64_t global_batch = 0;
  uint64_t world_size = 1;
  ShareBounds bounds;
  double gain_least = 0.03;           // of a step's time
  std::vector<uint64_t> shares = {};  // to begin with; none is an even cut
};

class SpeedCut {
 public:
  // kInvalid: what the spec breaks, as one sentence.
  static Result<SpeedCut> Make(SpeedCutSpec spec);

  // What each rank took for one of the `steps` steps since the last look, all at one cut; a change
  // when there should be one. A rank that measured nothing (0 seconds) makes the look void. As many
  // times as ranks, else nothing is looked at.
  struct Change {
    std::vector<uint64_t> shares;
    double gain = 0;      // of a step's time, predicted
    std::string because;  // one sentence
  };
  std::optional<Change> Look(const std::vector<StepTime>& by_rank, uint64_t steps);

  // What each rank took for its first step at new shares, which may have cost more than the others.
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
  double switch_seconds_ = 0;  // what a change is taken to cost
};

}  // namespace paceline
