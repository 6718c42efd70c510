#pragma once

// Decides when `paceline run` prints what its host waits for: after some seconds, and then each
// minute, so that the log of a waiting host is not silent. Pure.

#include "paceline/base/instant.h"

namespace paceline::cli {

class WaitTeller {
 public:
  static constexpr Duration kFirst = Duration::Seconds(5);
  static constexpr Duration kAgain = Duration::Seconds(60);

  // Returns true if a line is due. A wait begins with the first call that reports one.
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
