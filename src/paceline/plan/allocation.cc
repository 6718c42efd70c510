#include "paceline/plan/allocation.h"

#include <algorithm>
#include <variant>

#include "paceline/plan/search.h"

namespace paceline::plan {
namespace {

// Speeds of types and links that were not measured. Whether a model fits does not depend on them.
constexpr double kAnyFlops = 1e12;
constexpr double kAnyBandwidth = 1e11;
constexpr Link kAnyLink{.seconds = 1e-5, .bandwidth = 1e9};

DeviceType TypeOf(const AllocatedDevices& devices, const Cluster& known) {
  DeviceType type{.name = devices.type,
                  .flops = kAnyFlops,
                  .bandwidth = kAnyBandwidth,
                  .launch = 0,
                  .memory = devices.memory,
                  .source = "not measured"};
  const auto found = std::find_if(known.types.begin(), known.types.end(),
                                  [&](const DeviceType& one) { return one.name == devices.type; });
  if (found == known.types.end()) return type;
  type.flops = found->flops;
  type.bandwidth = found->bandwidth;
  type.launch = found->launch;
  type.source = found->source;
  return type;
}

}  // namespace

Cluster ClusterOf(const Allocation& allocation, const Cluster& known) {
  Cluster cluster;
  const bool has_links = !known.types.empty();
  cluster.node = has_links ? known.node : 1;
  cluster.inner = has_links ? known.inner : kAnyLink;
  cluster.outer = has_links ? known.outer : kAnyLink;
  cluster.overlap = known.overlap;
  for (const AllocatedDevices& devices : allocation) {
    auto same = std::find_if(cluster.types.begin(), cluster.types.end(), [&](const auto& type) {
      return type.name == devices.type && type.memory == devices.memory;
    });
    const auto index = static_cast<uint32_t>(same - cluster.types.begin());
    if (same == cluster.types.end()) cluster.types.push_back(TypeOf(devices, known));
    cluster.runs.push_back({index, devices.count});
  }
  return cluster;
}

bool Fits(const ModelSummary& model, const Allocation& allocation, const PlanWishes& wishes) {
  return Fits(model, ClusterOf(allocation), wishes);
}

double Throughput(const ModelSummary& model, const Cluster& cluster, const PlanWishes& wishes) {
  const auto answer = ChoosePlan(model, cluster, wishes);
  const auto* plan = std::get_if<ParallelPlan>(&answer);
  if (plan == nullptr || plan->predicted.step <= 0) return 0;
  return static_cast<double>(wishes.global_batch) / plan->predicted.step;
}

}  // namespace paceline::plan
