#pragma once

// What an operator shows of the job: told when it changed, once a second at most.

#include <optional>
#include <string>

#include "paceline/base/instant.h"
#include "paceline/core/record.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

class SummaryTeller {
 public:
  // The newest sentence about a failure comes from the records.
  void Fold(const core::Record& record);

  // To somebody who has heard none yet.
  void TellAnew() { told_.reset(); }
  Instant next_at() const { return next_at_; }
  // `status` as it is now. Nothing: it is as it was told.
  std::optional<wire::Summary> Take(Instant now, const wire::JobStatus& status);

 private:
  std::string last_;
  std::optional<wire::Summary> told_;
  Instant next_at_;
};

}  // namespace paceline::master
