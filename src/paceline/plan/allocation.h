#pragma once

// What a scheduler asks before it gives devices to a job: whether they hold its model, and how fast
// they train it.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/model/plan.h"
#include "paceline/plan/wishes.h"

namespace paceline::plan {

// Consecutive equal devices, in the order of the ranks.
struct AllocatedDevices {
  std::string type;
  uint64_t memory = 0;  // bytes that a job may use of one
  uint32_t count = 0;
};
using Allocation = std::vector<AllocatedDevices>;

// The allocation as a cluster with the same memory. Speeds are those of `known`, by the name of the
// type. Types that `known` lacks get a placeholder speed, so times predicted for them mean nothing.
Cluster ClusterOf(const Allocation& allocation, const Cluster& known = {});

// Whether any plan of the model fits in the memory of these devices.
bool Fits(const ModelSummary& model, const Allocation& allocation, const PlanWishes& wishes);

// Samples a second of the best plan on that cluster, as predicted; 0: none fits.
double Throughput(const ModelSummary& model, const Cluster& cluster, const PlanWishes& wishes);

}  // namespace paceline::plan
