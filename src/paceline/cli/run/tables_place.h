#pragma once

#include <string>

#include "paceline/cli/console/error.h"

namespace paceline::cli {

// Why the servers of a new job cannot keep their tables in this directory; none if they can. It is
// looked at before anything starts: a server that cannot use it would be started again and again.
Check CheckTablesPlace(const std::string& directory);

// Writes into the directory whose job it is, on the host of the job's master. Nothing without a
// directory.
Check NameTablesJob(const std::string& directory, const std::string& job_id);

}  // namespace paceline::cli
