#pragma once

// The events that are kept of a job after its end, for a platform whose hosts lose the journal: the
// newest ones, and before them those of the last incidents.

#include <deque>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/master/report/event_row.h"

namespace paceline::master {

class LastEvents {
 public:
  static constexpr size_t kNewestMax = 50;
  static constexpr size_t kOfIncidentsMax = 40;

  void Fold(const core::Record& record);
  // In the order of seq. `names` has folded all records.
  std::vector<wire::JobEvent> Rows(const NodeNames& names) const;

 private:
  std::deque<core::Record> newest_;
  std::deque<core::Record> of_incidents_;  // older than the newest
};

}  // namespace paceline::master
