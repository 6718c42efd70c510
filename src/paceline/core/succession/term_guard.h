#pragma once

// Which master a node listens to. A platform gives each of a job's masters a higher term than the
// one before. A node that has met a master never listens to one of a lower term again, so a master
// that was believed dead orders nothing more there.

#include <algorithm>
#include <cstdint>

namespace paceline::core {

class TermGuard {
 public:
  explicit TermGuard(uint64_t seen = 0) : seen_(seen) {}

  // False: hang up, and dial again. The job has a newer master.
  bool Admit(uint64_t term) {
    if (term < seen_) return false;
    seen_ = term;
    return true;
  }
  uint64_t seen() const { return seen_; }

 private:
  uint64_t seen_;
};

}  // namespace paceline::core
