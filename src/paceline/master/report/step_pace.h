#pragma once

// The steps a second of the job's current world, and the time since its last step. Both are as
// exact as the heartbeats in which nodes report their steps. Not stored: a new master begins anew.

#include <cstdint>
#include <deque>
#include <optional>

#include "paceline/base/instant.h"
#include "paceline/model/ids.h"

namespace paceline::master {

class StepPace {
 public:
  // How far a world is.
  struct Progress {
    Generation generation;
    int64_t step = -1;       // of the whole training, -1: not known; then step_count counts
    int64_t step_count = 0;  // in this world
  };
  // Cheap if there is no new step.
  void Note(Instant now, const Progress& progress);
  // Of the last kWindow, or longer if its steps take longer; 0: fewer than two reports had steps.
  double PerSecond() const;
  // The same at `now`: 0 while the world stands still, because the last minute's steps tell nothing
  // about that.
  double PerSecond(Instant now) const { return IsStill(now) ? 0 : PerSecond(); }
  // True: no step has come for 3 s and for five times as long as one usually takes.
  bool IsStill(Instant now) const;
  // None: this master has not heard of a step of this world.
  std::optional<Duration> SinceLast(Instant now) const;

  static constexpr Duration kWindow = Duration::Seconds(60);

 private:
  struct Mark {
    Instant at;
    int64_t steps = 0;
  };
  Generation generation_;
  bool is_absolute_ = false;
  std::deque<Mark> marks_;  // when steps rose, oldest first, at most one a second
  Mark last_;               // the newest rise
};

}  // namespace paceline::master
