#pragma once

// If the master does not answer, the launcher stops the job by itself and writes the stop into the
// journal. So a resumed job counts no failure of the ranks that were stopped.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "paceline/base/instant.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/core/job_state.h"
#include "paceline/core/record.h"

namespace paceline::cli {

// The records of that end; none if the job has ended.
std::vector<core::Record> RecordsOfLoneStop(const JobEnd& end, const core::JobState& state,
                                            Instant now);

// Writes them. Call it when no master of the job lives. Does nothing if the journal has the job's
// end already, or no job. Errors as those of master::Journal: PL-E032, PL-E034, PL-E035.
absl::Status RecordLoneStop(const std::string& run_dir, const JobEnd& end);

}  // namespace paceline::cli
