#include "paceline/sim/planned.h"

#include <map>
#include <utility>

#include "paceline/plan/json.h"

namespace paceline::sim {
namespace {

constexpr uint32_t kLayers = 8;
constexpr uint64_t kBytesOfParameter = 16;  // weight, gradient and Adam's two moments in fp32

plan::AllocatedDevices OneOf(plan::AllocatedDevices devices) {
  devices.count = 1;
  return devices;
}

}  // namespace

std::string SummaryThatNeeds(uint64_t bytes) {
  ModelSummary summary;
  summary.name = "simulated";
  LayerRow& row = summary.rows.emplace_back();
  row.name = "{}";
  row.count = kLayers;
  row.flops = 1e9;
  row.parameters = bytes / kBytesOfParameter / kLayers;
  row.saved = row.output = 1000;
  summary.no_pipeline = "it is not needed here";
  return plan::PrintSummary(summary);
}

plan::AllocatedDevices DevicesOf(const Options& options, uint32_t node, bool is_true) {
  const std::vector<uint64_t>& all = options.plan.memory;
  uint64_t memory = all[node % all.size()];
  const std::string type = "device-" + std::to_string(memory >> 30) + "G";
  if (!is_true && options.canary == Canary::kBoastMemory) memory *= 4;
  return {type, memory, options.spec.nproc_per_node};
}

bool Holds(const Options& options, const plan::Allocation& devices) {
  const auto model = plan::ReadSummary(options.plan.summary);
  const auto wishes = plan::ReadWishes(options.plan.wishes);
  return model.ok() && wishes.ok() && plan::Fits(*model, devices, *wishes);
}

bool Holds(const Options& options, const std::vector<uint32_t>& nodes) {
  plan::Allocation devices;
  for (const uint32_t node : nodes) devices.push_back(DevicesOf(options, node, /*is_true=*/true));
  return Holds(options, devices);
}

PlanNote NoteOf(const Options& options, Generation generation, const std::vector<uint32_t>& nodes) {
  plan::Allocation devices;
  for (const uint32_t node : nodes) {
    devices.push_back(OneOf(DevicesOf(options, node, /*is_true=*/false)));
  }
  return {.generation = generation,
          .summary = options.plan.summary,
          .wishes = options.plan.wishes,
          .cluster = plan::PrintCluster(plan::ClusterOf(devices)),
          .plan = "",
          .words = "data " + std::to_string(nodes.size()),
          .because = "it is chosen for these devices",
          .step = 0};
}

}  // namespace paceline::sim
