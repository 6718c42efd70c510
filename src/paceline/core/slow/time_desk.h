#pragma once

// Time by phase of the ranks, from the agents' heartbeats. The desk keeps the newest times of each
// rank outside of the job and adds them up. The job gets an event about once a second and decides
// when the sums become a record.
//
// Times arrive at different moments. So that the sums are those of one moment, each rank's phase is
// taken to have gone on since its times were read, at most for kGuessMax.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/event.h"
#include "paceline/core/job_state.h"
#include "paceline/model/phase_time.h"

namespace paceline::core {

// How long a phase is taken to go on when nothing is heard of the rank.
inline constexpr Duration kGuessMax = Duration::Seconds(5);

class TimeDesk {
 public:
  // The least time between two events, and between two for the end of a rank: all ranks of a large
  // world may end at once.
  static constexpr Duration kTellEvery = Duration::Seconds(1);
  static constexpr Duration kTellEndsEvery = Duration::Milliseconds(100);

  // Takes the times of a node, except those of ranks for which it has no seat. Returns the sums if
  // they are due.
  std::optional<TimeTold> Take(Instant now, const JobState& state, NodeId node,
                               const std::vector<RankTimes>& times);

 private:
  struct OneRank {
    RankTimes times;
    Instant at;
    Duration waited_before;  // at the begin of the window
  };
  TimeTold Sum(Instant now) const;
  // How long all ranks waited in this window beyond the one that waited least, in milliseconds.
  int64_t Straggling() const;

  Generation generation_;
  std::map<Rank, OneRank> ranks_;
  Instant told_at_;
  // Ranks are compared window by window, so that one that is slow for a while is not made up for by
  // another that is slow later. The step that lasts at a border counts in either window.
  static constexpr Duration kWindow = Duration::Seconds(60);
  Instant window_since_;
  int64_t straggled_ = 0;  // milliseconds, in the windows before
};

}  // namespace paceline::core
