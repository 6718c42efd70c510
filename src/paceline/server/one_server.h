#pragma once

// One process at a time is server N of a tables' directory. Without that, an earlier process that
// was frozen, or whose agent was, would go on with its old connections. Its workers' pushes would
// then be acknowledged to the ledger and be in no snapshot of the new process. Two jobs in one
// directory would do the same to each other.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"

namespace paceline::server {

// A lock that ends with this process, and that its forks do not have. An earlier process of the
// same job is killed. FAILED_PRECONDITION: a process of another job has the lock. Waits while an
// earlier process dies.
absl::StatusOr<Fd> BecomeServer(const std::string& directory, uint32_t server,
                                const std::string& job_id);

}  // namespace paceline::server
