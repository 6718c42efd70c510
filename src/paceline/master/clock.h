#pragma once

// The master's time: nanoseconds since the Unix epoch when the process started, and monotonic
// progress from there, so a step of the wall clock moves nothing. Never before the journal's last
// record, because records must not go back.

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
