#include "paceline/sim/pool/trace.h"

#include <algorithm>

namespace paceline::sim {

double MemoryUse(const PoolJob& job, double done, double of_process) {
  const JobMemory& memory = job.memory;
  const double added = memory.first * (memory.factor - 1);
  switch (memory.kind) {
    case MemoryKind::kFlat: return memory.first;
    case MemoryKind::kGrows: return memory.first + added * std::min(1.0, done / job.steps);
    case MemoryKind::kLeaks: return memory.first + added * std::min(1.0, of_process / job.steps);
    case MemoryKind::kJumps: return memory.first + (done >= memory.at * job.steps ? added : 0);
  }
  return memory.first;
}

double MemoryPeak(const PoolJob& job) { return MemoryUse(job, job.steps, job.steps); }

}  // namespace paceline::sim
