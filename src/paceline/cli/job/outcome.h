#pragma once

// How a job went that does not run any more, as far as this host knows it.

#include <optional>

#include "paceline/cli/job/job_place.h"

namespace paceline::cli {

struct Outcome {
  std::optional<JobEnd> end;      // none: it was killed, and can be resumed
  std::optional<double> at = {};  // seconds since 1970; of its last record if it has no end
};

// Reads the end of the job's journal.
Outcome OutcomeOf(const JobPlace& job);

}  // namespace paceline::cli
