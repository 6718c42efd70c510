#pragma once

// Plans with one stage. Each replica is a device, or `tensor` devices, of one type. This chooses
// the devices, and how many samples of a step each replica takes, so that all end together.

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
  double exchange = 0;           // the part for exchanges that passes do not hide
};

// The cost of a step for a replica of one type, and the largest share that fits.
struct ReplicaCost {
  LinearTime step;          // of a share, for all micro-batches, and the optimizer's step
  LinearTime sums;          // the part of `step` for sums over the ranks that share a layer
  uint64_t share_most = 0;  // samples that fit; 0: not even one for each micro-batch
  StageMemory memory;
};
ReplicaCost CostOfReplica(const Scene& scene, const Shape& shape, uint32_t type);

// Seconds of a step with the best cut, without computing the cut; infinite if there is none.
double ReplicaSeconds(const Scene& scene, const Shape& shape);

// The best cut. Nothing if not all samples fit.
std::optional<ReplicaCut> CutReplicas(const Scene& scene, const Shape& shape);

// The number of replicas that devices of this type can form.
inline uint32_t ReplicasOf(uint32_t count, const Shape& shape) { return count / shape.tensor; }

}  // namespace paceline::plan
