#pragma once

// Decides which master a node obeys. A platform gives each new master of a job a higher term. A
// node that has met a master refuses all masters of lower terms, so a master that was replaced and
// comes back cannot give orders to that node.

#include <algorithm>
#include <cstdint>

namespace paceline::core {

class TermGuard {
 public:
  explicit TermGuard(uint64_t seen = 0) : seen_(seen) {}

  // False: the job has a newer master. Close this connection and dial again.
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
