#pragma once

// One pool, one policy, one trace, from the first arrival until the last job has ended. Time goes
// on in ticks of ten seconds. Without a clock and without threads: the same trace gives the same
// outcome.
//
//   queued ──▶ starting ──▶ training ──▶ completed
//                 ▲            │ └─────▶ failed: its script, memory, a node, its master
//                 └────────────┘ restart: a fault, a kernel kill, a change of size or memory

#include <cstdint>
#include <vector>

#include "paceline/sim/pool/policy/policy.h"
#include "paceline/sim/pool/trace.h"

namespace paceline::sim {

struct PoolFailures {
  uint64_t script = 0;
  uint64_t memory = 0;
  uint64_t node = 0;
  uint64_t master = 0;
  uint64_t never = 0;  // jobs that the pool never had room for
};

struct PoolOutcome {
  uint64_t jobs = 0;
  uint64_t completed = 0;
  PoolFailures failures;
  double cpu_used = 0;        // core-seconds that worked
  double cpu_granted = 0;     // core-seconds that jobs had
  double memory_used = 0;     // GiB-seconds
  double memory_granted = 0;  // GiB-seconds
  double job_seconds = 0;     // from arrival to completion, of completed jobs, summed
  double wait_seconds = 0;    // from arrival to the first start, of completed jobs, summed
  uint64_t kernel_kills = 0;
  uint64_t resizes = 0;
  uint64_t memory_changes = 0;
  uint64_t node_faults = 0;
  double end = 0;  // when the last job ended

  double CpuUtilization() const { return cpu_granted > 0 ? cpu_used / cpu_granted : 0; }
  double MemoryUtilization() const { return memory_granted > 0 ? memory_used / memory_granted : 0; }
  double Completion() const {
    return jobs > 0 ? static_cast<double>(completed) / static_cast<double>(jobs) : 0;
  }
  double MeanJobSeconds() const { return OfCompleted(job_seconds); }
  double MeanWaitSeconds() const { return OfCompleted(wait_seconds); }
  double OfCompleted(double sum) const {
    return completed > 0 ? sum / static_cast<double>(completed) : 0;
  }
};

PoolOutcome RunPool(const PoolTrace& trace, PoolPolicy& policy);

}  // namespace paceline::sim
