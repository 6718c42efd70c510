#pragma once

// What a signal to stop means if there were earlier ones.
//
// `timeout`, systemd, Slurm and Kubernetes send SIGTERM to a process and again to its group or
// cgroup, within microseconds: that is one request, however often it comes. A second request would
// take away the grace in which ranks save. So only a person at a terminal can make one: by SIGINT,
// at least kAgainAfter after the signal before, because a terminal's Ctrl-C and a wrapper's copy of
// it also arrive together. Without a terminal there is `paceline stop --force`.

#include "paceline/base/instant.h"
#include "paceline/core/signal_number.h"

namespace paceline::core {

enum class StopAsk {
  kFirst,   // ranks get the signal and their grace
  kRepeat,  // adds nothing
  kForce,   // no grace: ranks are killed now
  kKill,    // all the job's processes on this host are killed now
};

class StopAsks {
 public:
  static constexpr Duration kAgainAfter = Duration::Seconds(1);

  StopAsk Take(Instant now, int signal) {
    const bool counts = count_ == 0 || (signal == kSigint && now - counted_at_ >= kAgainAfter);
    if (!counts) return StopAsk::kRepeat;
    ++count_;
    counted_at_ = now;
    if (count_ == 1) return StopAsk::kFirst;
    return count_ == 2 ? StopAsk::kForce : StopAsk::kKill;
  }

  bool is_forced() const { return count_ > 1; }

 private:
  int count_ = 0;       // of signals that added something
  Instant counted_at_;  // time of the last such signal
};

}  // namespace paceline::core
