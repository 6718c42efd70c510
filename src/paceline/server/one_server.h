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
// same job is killed if it is on this host, and waited for if it is on another one.
// FAILED_PRECONDITION: a process of another job has the lock. Waits while an earlier process dies.
absl::StatusOr<Fd> BecomeServer(const std::string& directory, uint32_t server,
                                const std::string& job_id);

// Writes the job's id into the directory, which it makes if need be, before the job's first server
// starts. A server of another host thus knows whether it sees the same directory.
absl::Status NameJob(const std::string& directory, const std::string& job_id);
bool IsOfJob(const std::string& directory, const std::string& job_id);

// The job whose process is the first server of the directory; "": none is.
std::string JobThatServes(const std::string& directory);

}  // namespace paceline::server
