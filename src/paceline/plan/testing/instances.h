#pragma once

// Random small models on random small clusters, and a brute-force search over their plans.

#include <limits>
#include <optional>

#include "paceline/base/prng.h"
#include "paceline/model/plan.h"
#include "paceline/plan/scene.h"
#include "paceline/plan/wishes.h"

namespace paceline::plan {

struct Instance {
  ModelSummary model;
  Cluster cluster;
  PlanWishes wishes;
};

struct InstanceSize {
  uint32_t types = 3;
  uint32_t groups = 6;
  uint32_t layers = 8;
};

Instance DrawInstance(Prng& prng, const InstanceSize& size);

// The least closed form of all cuts of all shapes; infinite if nothing fits.
double BruteForce(const Scene& scene, const PlanWishes& wishes);

// The least simulated step of all cuts of all shapes.
double BruteForceSimulated(const Scene& scene, const PlanWishes& wishes);

}  // namespace paceline::plan
