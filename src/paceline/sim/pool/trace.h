#pragma once

// What a pool of hosts is asked to train: jobs with speed curves, memory and faults. No policy sees
// these truths; it sees what it could measure (policy.h).

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/brain/throughput.h"

namespace paceline::sim {

// The cores and the memory of all hosts together: where a node lies is not simulated.
struct Pool {
  double cores = 0;
  double memory = 0;  // GiB
};

enum class MemoryKind {
  kFlat,
  kGrows,  // by the steps that the job has done: tables, dictionaries
  kLeaks,  // by the steps of the process: a restart frees it
  kJumps,  // to `factor` times the first use, at `at` of the steps
};

struct JobMemory {
  MemoryKind kind = MemoryKind::kFlat;
  double first = 1;   // GiB on each node at the first step
  double factor = 1;  // use at the end, or after the jump, as a multiple of the first
  double at = 0.5;    // of a jump, as a part of the steps
};

struct PoolJob {
  uint64_t seed = 0;        // of its faults and of the noise of its measurements
  uint32_t script = 0;      // equal for runs of the same script
  double arrives = 0;       // seconds
  double steps = 0;         // to do
  uint32_t nodes = 1;       // that its user asks for
  double cores = 8;         // of a node
  double busy = 0.8;        // the part of a node's cores that work while a node computes
  double asked = 16;        // GiB for each node
  double save_every = 600;  // seconds between two checkpoints in storage
  double restart = 30;      // seconds that a restart of all ranks takes
  brain::StepCurve curve;   // seconds a step
  JobMemory memory;
  bool has_bug = false;  // its script fails by itself, after half of its steps
};

struct PoolFaults {
  double node_hours = 400;  // of one node between two faults, on average
  double fatal = 0.3;       // the part of a plain job's node faults that ends the job
};

struct PoolTrace {
  std::string name;
  Pool pool;
  PoolFaults faults;
  std::vector<PoolJob> jobs;  // in order of arrival
};

// GiB that a node of the job uses. `done`: steps of the job, `of_process`: since the last restart.
double MemoryUse(const PoolJob& job, double done, double of_process);

// The largest use of a run without restarts.
double MemoryPeak(const PoolJob& job);

}  // namespace paceline::sim
