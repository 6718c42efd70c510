#pragma once

// The master of a job that has ended sends these events to a platform that loses the journal with
// the master's host: the job's 50 newest events, and up to 40 older ones, of its last incidents.

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
