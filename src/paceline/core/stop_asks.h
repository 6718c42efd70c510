#pragma once

// What a signal to stop means to a process that may have had others before it.
//
// `timeout`, systemd, Slurm and Kubernetes send SIGTERM to a process and again to its group or
// cgroup, within microseconds: that is one request, however often it comes. A second request would
// take the grace away in which ranks save. So only a person at a terminal can ask for that: by
// SIGINT, and no sooner than kAgainAfter after the signal before it, because a terminal's Ctrl-C
// and a wrapper that hands it on arrive together, too. Whoever has no terminal uses
// `paceline stop --force`.

#include "paceline/base/instant.h"
#include "paceline/core/signal_number.h"

namespace paceline::core {

enum class StopAsk {
  kFirst,   // ranks get the signal and their grace
  kRepeat,  // says nothing new
  kForce,   // no grace: ranks are killed now
  kKill,    // everything of the job on this host is killed now
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
  int count_ = 0;       // of signals that meant something new
  Instant counted_at_;  // when the last of them came
};

}  // namespace paceline::core
