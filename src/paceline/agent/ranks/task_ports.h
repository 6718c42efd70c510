#pragma once

// Holds a TCP port for each slot of a job of tasks, so that every address is known before the first
// task starts, and stays the task's through its restarts.
//
// A port is bound without listening, and lent: a task that sets SO_REUSEADDR may listen on it while
// the agent holds it. Servers set that option, because otherwise they could not restart at their
// address at all. So the port is never free, not even between two processes of a task.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "paceline/agent/ranks/store_port.h"

namespace paceline::agent {

class TaskPorts {
 public:
  // `seed` spreads the agents of one host over the range.
  explicit TaskPorts(uint64_t seed) : seed_(seed) {}

  // Holds a new port for each slot. RESOURCE_EXHAUSTED: all are taken.
  absl::Status Hold(uint32_t slots);
  // The slot's task has that port, perhaps since an earlier agent. If the task itself listens on it
  // just now, the port is safe with it, and this fails.
  absl::Status Keep(uint32_t slot, uint32_t port);
  std::vector<uint32_t> ports() const;

 private:
  uint64_t seed_;
  std::vector<StorePort> held_;  // by slot
};

}  // namespace paceline::agent
