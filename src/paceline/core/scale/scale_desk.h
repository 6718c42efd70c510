#pragma once

// What size the job should have, measured while it trains. Docs: docs/guides/scaling.md.
//
// The desk keeps the step times of the sizes that the job had, outside of the job: they are not in
// the journal. A new master measures anew, and so does the next run of the script. The fit takes
// the step times of earlier runs (model/job_history.h) as its prior. A step takes equally long on
// all ranks of a world, so those of rank 0 are enough. They are cut into windows of kWindowSteps;
// warm-up is left out, and saves, evaluation and the longest step of each block are not in the sums
// (model/rank_sample.h). A size is known by the median of its windows, which a short disturbance
// does not move.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/brain/size.h"
#include "paceline/core/event.h"
#include "paceline/core/job_state.h"
#include "paceline/model/job_history.h"
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
  // Nodes that have not come by then will not come; the desk then chooses smaller sizes.
  static constexpr Duration kArrivalPatience = Duration::Seconds(300);
  static constexpr Duration kCostUnknown = Duration::Seconds(10);  // of a change

  // Steps that take so many times as long, or as short, as in earlier runs are of other work.
  static constexpr double kLikeness = 2;

  // What the host knows beside the job's state.
  struct Facts {
    Instant now;
    Instant created_at;
    int64_t steps_left = -1;  // of the whole training; -1: not known
  };

  // What the script's runs measured before, also those of an earlier master of this job; the newest
  // first.
  void Remember(const std::vector<JobHistory>& earlier);
  // The size to begin with, before the first world is formed; only in mode auto, and only if
  // earlier runs shared their batch and measured two sizes.
  std::optional<SizeRequested> First(const JobState& state) const;

  // Takes the samples of a node. Returns true if a window ended, so that Due() may have changed.
  bool Take(Instant now, const JobState& state, const std::vector<RankSample>& samples);

  std::vector<SizeSpeed> Curve() const;     // by rising size
  std::vector<SizeSpeed> Measured() const;  // those of Curve() with enough windows
  bool shares_batch() const { return shares_batch_; }
  SizeAdvice Advise(const JobState& state, const Facts& facts) const;
  // The change of the size that is due; only in mode auto.
  std::optional<SizeRequested> Due(const JobState& state, const Facts& facts) const;

 private:
  void Begin(Instant now, const JobState& state);
  std::string Hindrance(const JobState& state, Instant now) const;
  // The curve of earlier runs; none if what is measured now differs from it too much.
  std::optional<brain::StepCurve> PriorFor(const std::vector<brain::SizeSample>& samples) const;
  std::vector<uint32_t> SizesFor(const JobState& state) const;

  Generation generation_;
  uint32_t nodes_ = 0;              // of the world
  bool shares_batch_ = false;       // by the newest sample of any world
  bool is_warm_ = false;            // the first window of the world has passed
  std::optional<StepSums> mark_;    // at the window's begin
  size_t windows_here_ = 0;         // in this world
  Instant heard_at_;                // of the last step in any world
  std::optional<Instant> left_at_;  // the size changed then, and no step has come since
  std::optional<Duration> cost_;    // of the newest change
  std::map<uint32_t, std::deque<double>> windows_;  // step times by size, oldest first
  std::map<uint32_t, SizeSpeed> earlier_;           // by size, of the newest run that had it
  std::optional<brain::Throughput> earlier_speed_;  // fitted to them
  bool shared_batch_earlier_ = false;
  uint32_t unreached_ = UINT32_MAX;  // the smallest size for which the nodes did not come
};

}  // namespace paceline::core
