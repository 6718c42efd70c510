#include "paceline/plan/testing/instances.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "paceline/plan/axis/axis.h"
#include "paceline/plan/improve.h"
#include "paceline/plan/pipeline_cut.h"
#include "paceline/plan/replicas.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

double Between(Prng& prng, double low, double high) {
  return low + (high - low) * static_cast<double>(prng.Below(1 << 20)) / (1 << 20);
}

// Gives each sample to the replica that would end first with it.
double GreedySeconds(const Scene& scene, const Shape& shape, const std::vector<uint32_t>& types) {
  struct Replica {
    ReplicaCost cost;
    uint64_t samples = 0;
  };
  std::vector<Replica> replicas;
  for (const uint32_t type : types) {
    replicas.push_back({CostOfReplica(scene, shape, type), shape.micro_batches});
    if (replicas.back().cost.share_most < shape.micro_batches) return kNever;
  }
  for (uint64_t left = scene.global_batch - types.size() * shape.micro_batches; left > 0; --left) {
    Replica* next = nullptr;
    double least = kNever;
    for (Replica& replica : replicas) {
      if (replica.samples == replica.cost.share_most) continue;
      const double seconds = replica.cost.step.SecondsFor(static_cast<double>(replica.samples + 1));
      if (seconds < least) {
        least = seconds;
        next = &replica;
      }
    }
    if (next == nullptr) return kNever;
    ++next->samples;
  }
  double seconds = 0;
  for (const Replica& replica : replicas) {
    seconds = std::max(seconds, replica.cost.step.SecondsFor(static_cast<double>(replica.samples)));
  }
  StageLoad load;
  for (const LayerRow& layer : scene.layers) load.Add(scene, layer, shape);
  return seconds + ExchangeSeconds(scene, load, shape, seconds / shape.micro_batches);
}

// All choices of `left` replicas among the types from `type` on.
double AllReplicas(const Scene& scene, const Shape& shape, uint32_t type, uint32_t left,
                   std::vector<uint32_t>& types) {
  if (type == scene.counts.size()) {
    return left == 0 ? GreedySeconds(scene, shape, types) : kNever;
  }
  double least = kNever;
  const uint32_t most = std::min(left, ReplicasOf(scene.counts[type], shape));
  for (uint32_t count = 0; count <= most; ++count) {
    types.insert(types.end(), count, type);
    least = std::min(least, AllReplicas(scene, shape, type + 1, left - count, types));
    types.resize(types.size() - count);
  }
  return least;
}

class AllCuts {
 public:
  AllCuts(const Scene& scene, const Shape& shape, bool simulates)
      : scene_(scene), shape_(shape), simulates_(simulates), left_(scene.counts.size()) {
    for (size_t type = 0; type < left_.size(); ++type) {
      left_[type] = StagesOf(scene.counts[type], shape);
      for (uint32_t begin = 0; begin < scene.layers.size(); ++begin) {
        for (uint32_t end = begin + 1; end <= scene.layers.size(); ++end) {
          costs_.push_back(CostOfStage(scene, shape, {begin, end, static_cast<uint32_t>(type)}));
        }
      }
    }
  }

  double Least() { return From(0, 0); }

 private:
  const StageCost& CostOf(const CutStage& stage) const {
    const auto layers = static_cast<uint32_t>(scene_.layers.size());
    const uint32_t each = layers * (layers + 1) / 2;
    const uint32_t before = stage.begin * layers - stage.begin * (stage.begin - 1) / 2;
    return costs_[stage.type * each + (stage.begin == 0 ? 0 : before) + stage.end - stage.begin -
                  1];
  }

  double From(uint32_t place, uint32_t begin) {
    const auto layers = static_cast<uint32_t>(scene_.layers.size());
    if (place == shape_.pipeline) return begin == layers ? Seconds() : kNever;
    if (begin > 0 && !scene_.layers[begin - 1].cut.empty()) return kNever;
    double least = kNever;
    const uint32_t in_flight = InFlightOf(shape_, place);
    for (uint32_t type = 0; type < left_.size(); ++type) {
      if (left_[type] == 0) continue;
      --left_[type];
      for (uint32_t end = begin + 1; end <= layers; ++end) {
        const CutStage stage = {begin, end, type};
        const double need = CostOf(stage).memory.BytesFor(MicroBatchOf(scene_, shape_), in_flight);
        if (need > static_cast<double>(scene_.cluster.types[type].memory)) break;
        stages_.push_back(stage);
        least = std::min(least, From(place + 1, end));
        stages_.pop_back();
      }
      ++left_[type];
    }
    return least;
  }

  double Seconds() const {
    double first = 0;
    double sum = 0;
    std::vector<StageTime> times;
    for (const CutStage& stage : stages_) {
      const StageCost& cost = CostOf(stage);
      first = std::max(first, (shape_.micro_batches - 1) * cost.pass + cost.after);
      sum += cost.pass + 2 * cost.transfer;
      times.push_back(TimeOf(cost));
    }
    if (!simulates_) return first + sum;
    return Simulate(times, SizeOf(shape_), *Schedules()[shape_.schedule])->seconds;
  }

  const Scene& scene_;
  const Shape shape_;
  const bool simulates_;
  std::vector<uint32_t> left_;
  std::vector<StageCost> costs_;
  std::vector<CutStage> stages_;
};

// The least seconds a step over all ways to cut the layers into the chunks of interleaved stages,
// each simulated. All devices are of one type.
double AllChunks(const Scene& scene, const Shape& shape, PipelineCut& cut) {
  const auto layers = static_cast<uint32_t>(scene.layers.size());
  const uint32_t begin = cut.stages.empty() ? 0 : cut.stages.back().end;
  if (cut.stages.size() == shape.pipeline * shape.virtual_stages) {
    return begin == layers ? SimulatedSeconds(scene, shape, cut) : kNever;
  }
  if (begin > 0 && !scene.layers[begin - 1].cut.empty()) return kNever;
  uint32_t type = 0;
  while (scene.counts[type] == 0) ++type;
  double least = kNever;
  for (uint32_t end = begin + 1; end <= layers; ++end) {
    cut.stages.push_back({begin, end, type});
    least = std::min(least, AllChunks(scene, shape, cut));
    cut.stages.pop_back();
  }
  return least;
}

double LeastOf(const Scene& scene, const Shape& shape, bool simulates) {
  if (IsSimulated(shape)) {
    PipelineCut cut;
    return AllChunks(scene, shape, cut);
  }
  std::vector<uint32_t> types;
  if (shape.pipeline == 1) return AllReplicas(scene, shape, 0, shape.data, types);
  return AllCuts(scene, shape, simulates).Least();
}

double AllShapes(const Scene& scene, const PlanWishes& wishes, bool simulates, size_t axis,
                 Shape& shape) {
  if (axis == kAxisCount) return LeastOf(scene, shape, simulates);
  const Axis& row = *Axes()[axis];
  const std::vector<uint32_t>& only = wishes.only[axis];
  double least = kNever;
  for (const uint32_t value : only.empty() ? row.values(scene, shape) : only) {
    if (!row.refuses(scene, shape, value).empty()) continue;
    shape.*row.field = value;
    least = std::min(least, AllShapes(scene, wishes, simulates, axis + 1, shape));
    shape.*row.field = Shape{}.*row.field;
  }
  return least;
}

}  // namespace

Instance DrawInstance(Prng& prng, const InstanceSize& size) {
  Instance instance;
  const auto types = static_cast<uint32_t>(1 + prng.Below(size.types));
  for (uint32_t i = 0; i < types; ++i) {
    instance.cluster.types.push_back({.name = std::string("type") + std::to_string(i),
                                      .flops = Between(prng, 1, 4) * 1e12,
                                      .bandwidth = Between(prng, 1, 4) * 1e11,
                                      .launch = Between(prng, 0, 1e-3),
                                      .memory = static_cast<uint64_t>(Between(prng, 2, 12) * 1e9),
                                      .source = "drawn"});
  }
  const auto groups = static_cast<uint32_t>(1 + prng.Below(size.groups));
  for (uint32_t i = 0; i < groups; ++i) {
    instance.cluster.runs.push_back({static_cast<uint32_t>(prng.Below(types)), 1});
  }
  instance.cluster.node = static_cast<uint32_t>(1 + prng.Below(4));
  instance.cluster.inner = {1e-5, Between(prng, 1, 10) * 1e10};
  instance.cluster.outer = {5e-5, Between(prng, 1, 10) * 1e9};
  const auto layers = static_cast<uint32_t>(2 + prng.Below(size.layers - 1));
  for (uint32_t i = 0; i < layers; ++i) {
    LayerRow row = {.name = std::string("layer") + std::to_string(i),
                    .flops = Between(prng, 0.1, 2) * 1e11,
                    .parameters = 1'000'000 + prng.Below(40'000'000),
                    .saved = 1'000'000 + prng.Below(200'000'000),
                    .output = 100'000 + prng.Below(20'000'000)};
    if (prng.Below(10) == 0) row.cut = "drawn";
    if (prng.Below(2) == 0) {
      row.tensor = TensorSplit{row.parameters, row.flops, row.saved / 2, 2};
      if (prng.Below(2) == 0) row.tensor->sequence = SequenceSplit{1, row.saved / 8};
    }
    if (prng.Below(2) == 0) {
      row.selective = SelectiveKeep{row.saved / 3, prng.Below(2) == 0 ? row.flops / 8 : 0};
      if (row.tensor) row.tensor->kept = row.saved / 4;
    }
    instance.model.rows.push_back(row);
  }
  constexpr uint64_t kBatches[] = {4, 6, 8, 12};
  instance.wishes.global_batch = kBatches[prng.Below(4)];
  return instance;
}

double BruteForce(const Scene& scene, const PlanWishes& wishes) {
  Shape shape;
  return AllShapes(scene, wishes, false, 0, shape);
}

double BruteForceSimulated(const Scene& scene, const PlanWishes& wishes) {
  Shape shape;
  return AllShapes(scene, wishes, true, 0, shape);
}

}  // namespace paceline::plan
