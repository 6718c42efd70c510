#pragma once

// A new run begins with the rows that an earlier one has left. If a snapshot of them is damaged or
// gone, the tables would be a mixture of trained rows and of older or new ones, and nobody would
// see it.

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace paceline::server {

struct FirstLoad {
  std::string directory;
  std::string job_id;
  uint32_t server = 0;
  uint64_t restarts = 0;  // of the server in this job
  uint64_t counted = 0;   // ordinals that the job's ledger has as done, before this server told it
  std::string lost;       // which snapshot is damaged or gone; "": none
};

// OUT_OF_RANGE with `lost`: the job must not train on. The next processes of the same server
// in this job get the same answer, by a file beside the snapshots. A job that has counted samples
// reads those again that its tables lack, and may go on.
absl::Status CheckFirstLoad(const FirstLoad& load);

}  // namespace paceline::server
