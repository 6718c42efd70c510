#pragma once

// The agent process: one loop thread that hosts core::AgentMachine. It feeds the machine what
// happened (assignments, starter, exits, progress, signals, time) and carries out what it answers.
// It decides nothing itself, needs nobody to go on supervising, and never touches a terminal: a
// dead master, launcher or console leaves it and its ranks as they are.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace paceline::agent {

struct AgentOptions {
  std::string run_dir;       // absolute; holds spec.json, job.json and token
  std::string node;          // unique in the job
  std::string runtime_dir;   // starters live here
  uint32_t incarnation = 0;  // of the node
};

// Blocks until the machine says that the agent shall exit; returns its exit code. An error status
// carries a model::Problem: nothing was started then. Call before any other thread exists, because
// it blocks the signals that it reads.
absl::StatusOr<int> RunAgent(const AgentOptions& options);

}  // namespace paceline::agent
