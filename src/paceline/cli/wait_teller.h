#pragma once

// When a person is told what a host waits for: nothing about a short wait, then now and then, so
// that a log shows that the host lives. Pure.

#include "paceline/base/instant.h"

namespace paceline::cli {

class WaitTeller {
 public:
  static constexpr Duration kFirst = Duration::Seconds(5);
  static constexpr Duration kAgain = Duration::Seconds(60);

  // Returns true when it is time to tell. A wait begins with the first call that says so.
  bool Take(Instant now, bool is_waiting) {
    if (!is_waiting) {
      next_ = Instant::Max();
      return false;
    }
    if (next_.is_max()) next_ = now + kFirst;
    if (now < next_) return false;
    next_ = now + kAgain;
    return true;
  }

 private:
  Instant next_ = Instant::Max();
};

}  // namespace paceline::cli
