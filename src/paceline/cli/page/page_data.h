#pragma once

// All that the page of a job shows, as one JSON object (docs/schemas/page.json): what `status`,
// `goodput` and `why` say, and a picture of the last half hour. Reads logs and tracebacks of the
// run directory.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/record.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

struct PageSource {
  std::string job_id;
  std::string name;
  std::string run_dir;
  const wire::JobStatus& status;
  const std::vector<core::Record>& records;   // all of the job
  const std::vector<wire::JobEvent>& events;  // the same as events
  const std::vector<std::string>& troubles;   // HostTroubles()
  Instant now;
};

nlohmann::ordered_json PageData(const PageSource& source);

}  // namespace paceline::cli
