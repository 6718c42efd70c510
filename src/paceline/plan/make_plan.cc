#include "paceline/plan/make_plan.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "paceline/base/check.h"
#include "paceline/plan/json.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

ParallelPlan Empty(const Scene& scene, const Shape& shape) {
  ParallelPlan plan;
  plan.global_batch = scene.global_batch;
  plan.data = shape.data;
  plan.tensor = shape.tensor;
  plan.sequence = shape.sequence != 0;
  plan.shard = shape.shard != 0;
  plan.recompute = static_cast<Recompute>(shape.recompute);
  plan.micro_batches = shape.micro_batches;
  plan.schedule = Schedules()[shape.schedule]->name;
  return plan;
}

// Hands out the ranks of each type in their order.
class RankDesk {
 public:
  explicit RankDesk(const Scene& scene) : scene_(scene), next_(scene.counts.size(), 0) {}

  void Take(uint32_t type, uint32_t count, std::vector<uint32_t>& ranks) {
    for (uint32_t i = 0; i < count; ++i) ranks.push_back(scene_.ranks[type][next_[type]++]);
  }
  std::vector<uint32_t> Left() const {
    std::vector<uint32_t> left;
    for (size_t type = 0; type < next_.size(); ++type) {
      left.insert(left.end(), scene_.ranks[type].begin() + next_[type], scene_.ranks[type].end());
    }
    std::sort(left.begin(), left.end());
    return left;
  }

 private:
  const Scene& scene_;
  std::vector<uint32_t> next_;
};

uint64_t Bytes(double bytes) {
  return static_cast<uint64_t>(std::min(bytes, static_cast<double>(kWholeMax)));
}

}  // namespace

ParallelPlan PlanOf(const Scene& scene, const Shape& shape, const ReplicaCut& cut) {
  ParallelPlan plan = Empty(scene, shape);
  PlanStage& stage = plan.stages.emplace_back();
  stage.end = static_cast<uint32_t>(scene.layers.size());
  RankDesk desk(scene);
  for (const uint32_t type : cut.types) desk.Take(type, shape.tensor, stage.ranks);
  plan.shares = cut.shares;
  plan.unused = desk.Left();
  double memory = 0;
  double busy = 0;
  double sums = 0;
  for (size_t i = 0; i < cut.types.size(); ++i) {
    const ReplicaCost cost = CostOfReplica(scene, shape, cut.types[i]);
    const double share = static_cast<double>(cut.shares[i]);
    const uint64_t part = (cut.shares[i] + shape.micro_batches - 1) / shape.micro_batches;
    memory = std::max(memory, cost.memory.BytesFor(static_cast<double>(part), 1));
    busy += cost.step.SecondsFor(share);
    sums += cost.sums.SecondsFor(share);
  }
  const auto replicas = static_cast<double>(cut.types.size());
  plan.predicted.step = cut.seconds;
  plan.predicted.compute = (busy - sums) / replicas;
  plan.predicted.communication = cut.exchange + sums / replicas;
  plan.predicted.bubble = std::max(0.0, cut.seconds - cut.exchange - busy / replicas);
  plan.predicted.memory = {Bytes(memory)};
  return plan;
}

ParallelPlan PlanOf(const Scene& scene, const Shape& shape, const PipelineCut& cut) {
  ParallelPlan plan = Empty(scene, shape);
  plan.shares.assign(shape.data, scene.global_batch / shape.data);
  RankDesk desk(scene);
  for (size_t at = 0; at < cut.stages.size(); ++at) {
    const CutStage& stage = cut.stages[at];
    if (at >= shape.pipeline) {
      plan.stages[at % shape.pipeline].later.push_back({stage.begin, stage.end});
      continue;
    }
    PlanStage& made = plan.stages.emplace_back();
    made.begin = stage.begin;
    made.end = stage.end;
    desk.Take(stage.type, shape.data * shape.tensor, made.ranks);
  }
  const CutCosts costs = CostsOfCut(scene, shape, cut);
  for (const double bytes : costs.bytes) plan.predicted.memory.push_back(Bytes(bytes));
  const auto step = Simulate(costs.times, SizeOf(shape), *Schedules()[shape.schedule]);
  CHECK(step.has_value(), "a schedule's own order does not wait for itself");
  plan.unused = desk.Left();
  const auto stages = static_cast<double>(shape.pipeline);
  const double busy = std::accumulate(step->busy.begin(), step->busy.end(), 0.0);
  plan.predicted.step = step->seconds;
  plan.predicted.communication = costs.communication / stages;
  plan.predicted.compute = busy / stages - plan.predicted.communication;
  plan.predicted.bubble = std::max(0.0, step->seconds - busy / stages);
  return plan;
}

double SecondsWithEqualShares(const Scene& scene, const Shape& shape, const ReplicaCut& cut) {
  const double even = static_cast<double>(scene.global_batch) / shape.data;
  double seconds = 0;
  const std::set<uint32_t> types(cut.types.begin(), cut.types.end());
  for (const uint32_t type : types) {
    seconds = std::max(seconds, CostOfReplica(scene, shape, type).step.SecondsFor(even));
  }
  return seconds + cut.exchange;
}

}  // namespace paceline::plan
