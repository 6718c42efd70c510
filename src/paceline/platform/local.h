#pragma once

// The platform of one machine: it starts master and agents, each in a session of its own, so that
// they outlive the launcher. `core/node/keeper.h` decides which of them to restart, and the
// launcher orders it.
//
// The code for clusters is elsewhere: a file of cli/submit/ makes the job there, and
// deploy/kubernetes/operator makes its pods. Such a program speaks with the master through
// master/handlers/supervise.cc.

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
    uint64_t term = 0;     // of this master, if a platform starts masters; else 0
    uint32_t survivors = 0;
    std::string memo;
  };
  // The master writes one byte into `ready_fd` when it serves.
  absl::StatusOr<SpawnedProcess> StartMaster(const MasterWords& said, int ready_fd) const;
  absl::StatusOr<SpawnedProcess> StartAgent(const std::string& node, uint32_t incarnation) const;

 private:
  absl::StatusOr<SpawnedProcess> Start(std::vector<std::string> words, const std::string& log_path,
                                       int passed_fd = -1) const;
};

}  // namespace paceline::platform
