#pragma once

// The job's summary for a platform's operator: sent when it changes, at most once a second.

#include <optional>
#include <string>

#include "paceline/base/instant.h"
#include "paceline/core/job_state.h"
#include "paceline/core/record.h"
#include "paceline/master/report/job_counts.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

class SummaryTeller {
 public:
  // Keeps the sentence of the newest failure. What followed from a failure does not replace it.
  void Fold(const core::Record& record);

  // Sends the summary to a new operator.
  void TellAnew() { told_.reset(); }
  Instant next_at() const { return next_at_; }
  // `status` (MakeJobBrief is enough), `counts` and `state` are the current ones. None: the summary
  // has not changed.
  std::optional<wire::Summary> Take(Instant now, const wire::JobStatus& status,
                                    const StateCounts& counts, const core::JobState& state);

 private:
  std::string last_;
  std::optional<wire::Summary> told_;
  Instant next_at_;
};

}  // namespace paceline::master
