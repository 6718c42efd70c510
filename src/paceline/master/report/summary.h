#pragma once

// The job's summary for a platform's operator: sent when it changes, at most once a second.

#include <optional>
#include <string>
#include <vector>

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

  // The number of nodes that was chosen. Set it when that is durable, and so after the wish that
  // follows from it: an operator that heard of it first would make nodes that are not needed.
  void SetSize(const core::ChosenSize& size);

  // What became of the newest SizeWanted. `refusal` is "" if it was taken.
  void NoteWanted(uint32_t nodes, std::string refusal);

  // The measures change with time alone, so they are replaced at most once in kMeasuresPause.
  bool NeedsMeasures(Instant now) const { return now >= measures_due_; }
  void SetMeasures(Instant now, std::vector<wire::Measure> measures);

  Instant next_at() const { return next_at_; }
  // `status` (MakeJobBrief is enough), `counts` and `state` are the current ones. None: the summary
  // has not changed.
  std::optional<wire::Summary> Take(Instant now, const wire::JobStatus& status,
                                    const StateCounts& counts, const core::JobState& state);

 private:
  std::string last_;
  std::optional<wire::Summary> told_;
  std::optional<core::ChosenSize> size_;
  uint32_t size_refused_ = 0;
  std::string refusal_;
  std::vector<wire::Measure> measures_;
  Instant measures_due_;
  Instant next_at_;
};

}  // namespace paceline::master
