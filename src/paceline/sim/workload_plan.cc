// What rank 0 tells its agent of the parallel plan, once all ranks have met.

#include <vector>

#include "paceline/sim/planned.h"
#include "paceline/sim/workload.h"
#include "paceline/sim/world.h"

namespace paceline::sim {

void Workload::TellPlan(Generation generation, const Group& group) {
  const Options& options = world_.options();
  if (!options.plan.is_used) return;
  std::vector<uint32_t> nodes;  // of each rank
  for (const auto& [rank, member] : group.members) nodes.push_back(member.node);
  plan::Allocation devices;
  for (const uint32_t node : nodes) {
    devices.push_back(DevicesOf(options, node, /*is_true=*/true));
    devices.back().count = 1;
  }
  // A script whose model fits nowhere has no plan: it fails in parallelize, or trains without one.
  if (!Holds(options, devices)) return;
  AgentHost* agent = world_.node(nodes.front()).agent();
  if (agent != nullptr) agent->TakePlan(NoteOf(options, generation, nodes));
}

}  // namespace paceline::sim
