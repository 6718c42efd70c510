#pragma once

// One stage: each replica is a device, or `tensor` of them, of one type. What is left to choose is
// which devices, and how many samples of a step each replica takes, so that all end together.

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/plan/cost.h"
#include "paceline/plan/scene.h"

namespace paceline::plan {

struct ReplicaCut {
  std::vector<uint32_t> types;   // of each replica, in the order of its ranks
  std::vector<uint64_t> shares;  // samples of each
  double seconds = 0;            // of a step
  double exchange = 0;           // of it: not hidden behind the passes
};

// What a step costs a replica of one type, and how much of it fits.
struct ReplicaCost {
  LinearTime step;          // of a share, for all micro-batches, and the optimizer's step
  uint64_t share_most = 0;  // samples that fit; 0: not even one for each micro-batch
  StageMemory memory;
};
ReplicaCost CostOfReplica(const Scene& scene, const Shape& shape, uint32_t type);

// Seconds of a step with the best cut, without making it; infinite if there is none.
double ReplicaSeconds(const Scene& scene, const Shape& shape);

// The best cut. Nothing if not all samples fit.
std::optional<ReplicaCut> CutReplicas(const Scene& scene, const Shape& shape);

// Replicas that devices of this type make.
inline uint32_t ReplicasOf(uint32_t count, const Shape& shape) { return count / shape.tensor; }

}  // namespace paceline::plan
