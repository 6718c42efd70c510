#pragma once

// When the agent's heartbeats are due, and how late its loop was for them. The host of the clock
// passes CLOCK_MONOTONIC nanoseconds.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "paceline/base/instant.h"

namespace paceline::agent {

class HeartbeatClock {
 public:
  explicit HeartbeatClock(Duration interval) : interval_(interval) {}

  // From the next beat on.
  void set_interval(Duration interval) { interval_ = interval; }

  // Returns when the next beat is due. Beats have a fixed rate. Beats that a frozen process missed
  // are skipped.
  int64_t Next(int64_t now_ns) {
    const int64_t interval = std::max<int64_t>(interval_.nanoseconds(), 1'000'000);
    due_ns_ = std::max(due_ns_ + interval, now_ns);
    return due_ns_;
  }

  // The beat that was due comes now.
  void Came(int64_t now_ns) { lateness_ns_ = std::max(lateness_ns_, now_ns - due_ns_); }

  // The longest lateness since the last call.
  Duration TakeLateness() { return Duration::Nanoseconds(std::exchange(lateness_ns_, 0)); }

 private:
  Duration interval_;
  int64_t due_ns_ = 0;
  int64_t lateness_ns_ = 0;
};

}  // namespace paceline::agent
