#include "paceline/plan/replicas.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/data/speed_cut.h"

namespace paceline::plan {
namespace {

constexpr int kTimeHalvings = 100;  // more than a double has bits

// Samples that a replica can do within `seconds`, at most.
uint64_t SamplesIn(double seconds, const ReplicaCost& cost, const Shape& shape) {
  const double time = seconds - cost.step.fixed;
  if (cost.share_most == 0 || time < 0) return 0;
  const double most = static_cast<double>(cost.share_most);
  // The bisection ends at exactly the time that some share takes. Without a tolerance, rounding
  // would drop that share's last sample.
  const double fitting =
      cost.step.per_sample > 0 ? std::floor(time / cost.step.per_sample * (1 + 1e-12)) : most;
  const auto samples = static_cast<uint64_t>(std::min(fitting, most));
  return samples < shape.micro_batches ? 0 : samples;
}

// The replicas that do the most within `seconds`, `shape.data` of them, by type; empty if they do
// less than a step.
std::vector<uint32_t> CountsWithin(double seconds, const Scene& scene, const Shape& shape,
                                   const std::vector<ReplicaCost>& costs) {
  std::vector<std::pair<uint64_t, uint32_t>> order;  // samples, type
  for (uint32_t type = 0; type < costs.size(); ++type) {
    order.emplace_back(SamplesIn(seconds, costs[type], shape), type);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<uint32_t> counts(costs.size(), 0);
  uint32_t left = shape.data;
  uint64_t samples = 0;
  for (const auto& [each, type] : order) {
    if (each == 0) break;
    counts[type] = std::min(left, ReplicasOf(scene.counts[type], shape));
    left -= counts[type];
    samples += each * counts[type];
  }
  return left == 0 && samples >= scene.global_batch ? counts : std::vector<uint32_t>{};
}

struct Fastest {
  double seconds = kNever;  // of the passes and the optimizer's step
  std::vector<uint32_t> counts;
};

// Bisection for the least time in which some `shape.data` replicas do a step.
Fastest FastestOf(const Scene& scene, const Shape& shape, const std::vector<ReplicaCost>& costs) {
  double high = 0;
  for (const ReplicaCost& cost : costs) {
    high = std::max(high, cost.step.SecondsFor(static_cast<double>(cost.share_most)));
  }
  Fastest fastest = {.counts = CountsWithin(high, scene, shape, costs)};
  if (fastest.counts.empty()) return fastest;
  double low = 0;
  for (int i = 0; i < kTimeHalvings && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    auto counts = CountsWithin(middle, scene, shape, costs);
    if (counts.empty()) {
      low = middle;
    } else {
      high = middle;
      fastest.counts = std::move(counts);
    }
  }
  fastest.seconds = high;
  return fastest;
}

std::vector<ReplicaCost> CostsOf(const Scene& scene, const Shape& shape) {
  std::vector<ReplicaCost> costs;
  for (uint32_t type = 0; type < scene.counts.size(); ++type) {
    costs.push_back(CostOfReplica(scene, shape, type));
  }
  return costs;
}

// The types of the replicas in the order of their ranks.
std::vector<uint32_t> TypesInOrder(const Scene& scene, const Shape& shape,
                                   const std::vector<uint32_t>& counts) {
  std::vector<std::pair<uint32_t, uint32_t>> first_ranks;  // rank, type
  for (uint32_t type = 0; type < counts.size(); ++type) {
    for (uint32_t i = 0; i < counts[type]; ++i) {
      first_ranks.emplace_back(scene.ranks[type][i * shape.tensor], type);
    }
  }
  std::sort(first_ranks.begin(), first_ranks.end());
  std::vector<uint32_t> types;
  for (const auto& [rank, type] : first_ranks) types.push_back(type);
  return types;
}

}  // namespace

ReplicaCost CostOfReplica(const Scene& scene, const Shape& shape, uint32_t type) {
  const DeviceType& device = scene.cluster.types[type];
  const StageLoad load = WholeModel(scene, shape);
  PassTime pass;
  for (const LayerRow& row : scene.rows) {
    pass.Add(PassOf(scene, row, device, shape), row.count);
  }
  pass.AddEdge(EdgeTime(scene, load, shape));
  ReplicaCost cost;
  cost.step.fixed = shape.micro_batches * (pass.forward.fixed + pass.backward.fixed) +
                    OptimizerSeconds(scene, load, device, shape);
  cost.step.per_sample = pass.forward.per_sample + pass.backward.per_sample;
  cost.sums = {.fixed = shape.micro_batches * pass.sums.fixed, .per_sample = pass.sums.per_sample};
  cost.memory = MemoryOf(scene, load, shape);
  const double room = static_cast<double>(device.memory) - cost.memory.fixed;
  const double each = cost.memory.BytesFor(1, 1) - cost.memory.fixed;
  const double most = each > 0 ? std::floor(room / each) : static_cast<double>(scene.global_batch);
  if (room < 0 || most < 1) return cost;
  const double share =
      std::min(most * shape.micro_batches, static_cast<double>(scene.global_batch));
  cost.share_most = static_cast<uint64_t>(share);
  if (cost.share_most < shape.micro_batches) cost.share_most = 0;
  return cost;
}

double ReplicaSeconds(const Scene& scene, const Shape& shape) {
  const double passes = FastestOf(scene, shape, CostsOf(scene, shape)).seconds;
  if (passes == kNever) return kNever;
  return passes +
         ExchangeSeconds(scene, WholeModel(scene, shape), shape, passes / shape.micro_batches);
}

std::optional<ReplicaCut> CutReplicas(const Scene& scene, const Shape& shape) {
  const std::vector<ReplicaCost> costs = CostsOf(scene, shape);
  const Fastest fastest = FastestOf(scene, shape, costs);
  if (fastest.counts.empty()) return std::nullopt;
  ReplicaCut cut;
  cut.types = TypesInOrder(scene, shape, fastest.counts);
  std::vector<LinearTime> lines;
  std::vector<ShareBounds> bounds;
  for (const uint32_t type : cut.types) {
    lines.push_back(costs[type].step);
    bounds.push_back({.least = shape.micro_batches, .most = costs[type].share_most});
  }
  cut.shares = CutForEqualTimes(lines, scene.global_batch, bounds);
  for (size_t i = 0; i < lines.size(); ++i) {
    cut.seconds = std::max(cut.seconds, lines[i].SecondsFor(static_cast<double>(cut.shares[i])));
  }
  cut.exchange =
      ExchangeSeconds(scene, WholeModel(scene, shape), shape, cut.seconds / shape.micro_batches);
  cut.seconds += cut.exchange;
  return cut;
}

}  // namespace paceline::plan
