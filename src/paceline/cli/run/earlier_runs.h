#pragma once

// What a resumed job did before: one line in place of its whole history. Pure.

#include <cstdint>
#include <string>

#include "paceline/wire/messages.h"

namespace paceline::cli {

class EarlierRuns {
 public:
  // Takes all events up to now, in order of seq.
  void Add(const wire::JobEvent& event);

  // 0: nothing happened before.
  uint64_t last_seq() const { return last_seq_; }

  // "before: 2 runs since 2026-11-28 14:02, with 5 worlds and 3 failures of ranks; …", in local
  // time; "" if nothing happened before.
  std::string Text(const std::string& job_id) const;

 private:
  uint64_t last_seq_ = 0;
  int64_t begin_ns_ = 0;
  uint32_t runs_ = 1;
  uint32_t worlds_ = 0;
  uint32_t failures_ = 0;
  int64_t step_ = -1;  // the highest that an event names
  std::string end_;    // sentence of the last run's end; "": it has not ended
};

}  // namespace paceline::cli
