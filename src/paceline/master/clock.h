#pragma once

// The master's time in nanoseconds since the Unix epoch: the wall clock at the process's start plus
// monotonic progress, so a later step of the wall clock has no effect. Never before the journal's
// last record, because records must not go back in time.

#include <algorithm>
#include <chrono>

#include "paceline/base/instant.h"

namespace paceline::master {

class Clock {
 public:
  explicit Clock(Instant not_before)
      : start_(std::max(not_before, WallNow())), started_(std::chrono::steady_clock::now()) {}

  Instant Now() const {
    const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - started_;
    return start_ + Duration::Nanoseconds(passed.count());
  }

  static Instant WallNow() {
    const std::chrono::nanoseconds since = std::chrono::system_clock::now().time_since_epoch();
    return Instant::FromNanoseconds(since.count());
  }

 private:
  Instant start_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace paceline::master
