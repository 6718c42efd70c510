#pragma once

// The agent process: one loop thread that hosts core::AgentMachine. It gives events to the machine
// (assignments, starter, exits, progress, signals, time) and executes its actions. It decides
// nothing itself. It does not need the master, the launcher or the console: if one of them dies,
// the agent and its ranks continue.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace paceline::agent {

struct AgentOptions {
  std::string run_dir;       // absolute; holds spec.json, job.json and token
  std::string node;          // unique in the job
  std::string runtime_dir;   // folder of starters
  uint32_t incarnation = 0;  // of the node
};

// Runs the agent until its machine says exit; returns the exit code. An error status carries a
// model::Problem: nothing was started then. Call it before any other thread exists, because it
// blocks the signals that it reads.
absl::StatusOr<int> RunAgent(const AgentOptions& options);

}  // namespace paceline::agent
