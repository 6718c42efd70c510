#pragma once

// The platform that is this machine: nodes are agents in sessions of their own. What it starts
// outlives its starter; restarting what dies is decided by core/keeper and ordered by the launcher.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/base/spawn.h"

namespace paceline::platform {

struct LocalPlatform {
  std::string binary;       // the paceline executable
  std::string run_dir;      // absolute
  std::string runtime_dir;  // absolute
  std::string job_id;

  struct MasterWords {
    std::string listen;  // host:port
    bool insecure = false;
    bool resumes = false;  // a user started the job again
    uint64_t term = 0;     // of a platform that starts masters; 0: there is none
    uint32_t survivors = 0;
  };
  // The master writes one byte into `ready_fd` when it serves.
  absl::StatusOr<SpawnedProcess> StartMaster(const MasterWords& said, int ready_fd) const;
  absl::StatusOr<SpawnedProcess> StartAgent(const std::string& node, uint32_t incarnation) const;

 private:
  absl::StatusOr<SpawnedProcess> Start(std::vector<std::string> words, const std::string& log_path,
                                       int passed_fd = -1) const;
};

}  // namespace paceline::platform
