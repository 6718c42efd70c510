#pragma once

// job.json of a run directory: the address of the job's master. The launcher writes it first; a
// master replaces its own part and keeps the rest.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline::master {

struct MasterAddress {
  std::string addr;  // host:port of gRPC; other hosts can reach it
  std::string http;  // host:port of /metrics and /healthz
  int64_t pid = 0;
  std::string leases = {};  // host:port of the lease channel
  uint64_t start_time = 0;  // of that process: field 22 of /proc/PID/stat; 0: unknown
  bool operator==(const MasterAddress&) const = default;
};

// This process's, for MasterAddress; 0 if /proc cannot be read.
uint64_t OwnStartTime();

// NOT_FOUND: there is no file, or no master in it. DATA_LOSS: not a job file.
absl::StatusOr<MasterAddress> ReadMasterAddress(const std::string& run_dir);

// The port for /metrics and /healthz that the user set. 0: any.
uint16_t WantedHttpPort(const std::string& run_dir);

absl::Status WriteMasterAddress(const std::string& run_dir, const std::string& job_id,
                                const MasterAddress& address);

}  // namespace paceline::master
