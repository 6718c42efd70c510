#pragma once

// What size the job should have, measured while it trains. Docs: docs/guides/scaling.md.
//
// The desk keeps the step times of the sizes that the job had, outside of the job: they are not
// durable, and a new master measures anew. A step takes equally long on all ranks of a world, so
// those of rank 0 are enough. They are cut into windows of kWindowSteps; warm-up is left out, and
// saves, evaluation and the longest step of each block are not in the sums (model/rank_sample.h). A
// size is known by the median of its windows, which a short disturbance does not move.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/brain/size.h"
#include "paceline/core/event.h"
#include "paceline/core/job_state.h"
#include "paceline/model/rank_sample.h"
#include "paceline/model/size_speed.h"

namespace paceline::core {

struct SizeAdvice {
  std::optional<brain::SizeChoice> choice;  // none: too little is known
  std::string hindrance;  // why the desk does not change the size by itself; "": it may
};

class ScaleDesk {
 public:
  static constexpr uint64_t kWindowSteps = 20;
  static constexpr Duration kWindowTime = Duration::Milliseconds(500);  // of the steps in it
  static constexpr size_t kWindowsLeast = 4;  // of a size, before it is decided about
  static constexpr size_t kWindowsMost = 64;  // that are kept of a size; the newest
  static constexpr Duration kCostUnknown = Duration::Seconds(10);  // of a change

  // What the host knows beside the job's state.
  struct Facts {
    Instant now;
    Instant created_at;
    int64_t steps_left = -1;  // of the whole training; -1: not known
  };

  // Takes the samples of a node. Returns true if a window ended, so that Due() may have changed.
  bool Take(Instant now, const JobState& state, const std::vector<RankSample>& samples);

  std::vector<SizeSpeed> Curve() const;  // by rising size
  SizeAdvice Advise(const JobState& state, const Facts& facts) const;
  // The change of the size that is due; only in mode auto.
  std::optional<SizeRequested> Due(const JobState& state, const Facts& facts) const;

 private:
  void Begin(Instant now, const JobState& state);
  std::string Hindrance(const JobState& state, Instant now) const;

  Generation generation_;
  uint32_t nodes_ = 0;  // of the world
  bool shares_batch_ = false;
  bool is_warm_ = false;            // the first window of the world has passed
  std::optional<StepSums> mark_;    // at the window's begin
  size_t windows_here_ = 0;         // in this world
  Instant heard_at_;                // of the last step in any world
  std::optional<Instant> left_at_;  // the size changed then, and no step has come since
  std::optional<Duration> cost_;    // of the newest change
  std::map<uint32_t, std::deque<double>> windows_;  // step times by size, oldest first
};

}  // namespace paceline::core
