#pragma once

// The job's part of the history: what earlier runs of its script measured, and what this one
// measures.

#include <string>

#include "paceline/base/instant.h"
#include "paceline/core/scale/scale_desk.h"
#include "paceline/master/history/history_keeper.h"
#include "paceline/model/job_history.h"

namespace paceline::master {

class HistoryDesk {
 public:
  static constexpr Duration kInterval = Duration::Seconds(10);  // between two writes

  // `own`: of this job, without a curve. `keeper` may be null: nothing is kept or known.
  void Start(HistoryKeeper* keeper, JobHistory own);

  // What earlier runs measured, and earlier masters of this job. Waits for it a moment.
  void Recall(core::ScaleDesk* desk);
  // A window of steps has ended. `now` counts from the Unix epoch, as everywhere in the master.
  void Note(Instant now, const core::ScaleDesk& desk);
  // The master ends.
  void Close(Instant now, const core::ScaleDesk& desk);

 private:
  void Put(Instant now, const core::ScaleDesk& desk);

  HistoryKeeper* keeper_ = nullptr;
  JobHistory own_;
  Instant due_;
};

}  // namespace paceline::master
