#include "paceline/plan/whale.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "paceline/data/speed_cut.h"
#include "paceline/plan/improve.h"
#include "paceline/plan/pipeline_cut.h"
#include "paceline/plan/replicas.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

std::vector<uint32_t> TypeOfEachDevice(const Scene& scene) {
  std::vector<uint32_t> types;
  for (const DeviceRun& run : scene.cluster.runs) types.insert(types.end(), run.count, run.type);
  return types;
}

// Algorithm 1: ratios by FLOP/s. Load moves from a device without enough memory to the least used
// one, until everything fits. Empty: it does not fit.
std::vector<double> RatiosOf(const Scene& scene, const Shape& shape,
                             const std::vector<uint32_t>& types) {
  std::vector<double> speed;
  std::vector<double> most;
  for (const uint32_t type : types) {
    speed.push_back(scene.cluster.types[type].flops);
    most.push_back(static_cast<double>(CostOfReplica(scene, shape, type).share_most) /
                   static_cast<double>(scene.global_batch));
  }
  const double all = std::accumulate(speed.begin(), speed.end(), 0.0);
  std::vector<double> ratio;
  for (const double one : speed) ratio.push_back(one / all);
  std::set<size_t> over;
  std::set<size_t> free;
  for (size_t i = 0; i < types.size(); ++i) (ratio[i] > most[i] ? over : free).insert(i);
  while (!over.empty() && !free.empty()) {
    const size_t from = *std::max_element(over.begin(), over.end(), [&](size_t a, size_t b) {
      return ratio[a] / most[a] < ratio[b] / most[b];
    });
    const size_t to = *std::min_element(free.begin(), free.end(), [&](size_t a, size_t b) {
      return ratio[a] / speed[a] < ratio[b] / speed[b];
    });
    const double moved = std::min(ratio[from] - most[from], most[to] - ratio[to]);
    if (moved <= 0) {
      free.erase(to);
      continue;
    }
    ratio[from] -= moved;
    ratio[to] += moved;
    if (ratio[from] <= most[from] * (1 + 1e-12)) over.erase(from);
  }
  return over.empty() ? ratio : std::vector<double>{};
}

double DataParallelSeconds(const Scene& scene) {
  const std::vector<uint32_t> types = TypeOfEachDevice(scene);
  Shape shape = {.data = static_cast<uint32_t>(types.size())};
  if (scene.global_batch < types.size()) return kNever;
  const std::vector<double> ratios = RatiosOf(scene, shape, types);
  if (ratios.empty()) return kNever;
  std::vector<uint64_t> weights;
  for (const double ratio : ratios) weights.push_back(std::llround(ratio * 1e6));
  const std::vector<uint64_t> shares = ScaleShares(weights, scene.global_batch, 1);
  double seconds = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    const ReplicaCost cost = CostOfReplica(scene, shape, types[i]);
    if (shares[i] > cost.share_most) return kNever;
    seconds = std::max(seconds, cost.step.SecondsFor(static_cast<double>(shares[i])));
  }
  return seconds + ExchangeSeconds(scene, WholeModel(scene, shape), shape, seconds);
}

}  // namespace

std::optional<WhalePipeline> WhaleCut(const Scene& scene) {
  std::vector<uint32_t> types = TypeOfEachDevice(scene);
  const auto layers = static_cast<uint32_t>(scene.layers.size());
  if (types.size() < 2 || types.size() > layers || !scene.no_pipeline.empty()) return std::nullopt;
  if (scene.global_batch < types.size()) return std::nullopt;  // too few micro-batches for 1F1B
  std::stable_sort(types.begin(), types.end(), [&](uint32_t a, uint32_t b) {
    return scene.cluster.types[a].memory > scene.cluster.types[b].memory;
  });
  WhalePipeline whale;
  whale.shape = {.pipeline = static_cast<uint32_t>(types.size()),
                 .micro_batches = static_cast<uint32_t>(scene.global_batch),
                 .schedule = *FindSchedule("1f1b")};
  double speed_left = 0;
  for (const uint32_t type : types) speed_left += scene.cluster.types[type].flops;
  double flops_left = 0;
  for (const LayerRow& layer : scene.layers) flops_left += layer.flops;
  uint32_t begin = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    const double speed = scene.cluster.types[types[i]].flops;
    const double wanted = flops_left * speed / speed_left;
    const auto rest = static_cast<uint32_t>(types.size() - i - 1);
    uint32_t end = begin + 1;
    double flops = scene.layers[begin].flops;
    while (end < layers - rest && (flops + scene.layers[end].flops / 2 < wanted || rest == 0)) {
      flops += scene.layers[end++].flops;
    }
    if (end < layers && !scene.layers[end - 1].cut.empty()) return std::nullopt;
    whale.cut.stages.push_back({begin, end, types[i]});
    flops_left -= flops;
    speed_left -= speed;
    begin = end;
  }
  whale.cut.seconds = ClosedSeconds(scene, whale.shape, whale.cut);
  return whale;
}

double WhaleSeconds(const Scene& scene) {
  const auto pipeline = WhaleCut(scene);
  const double seconds = DataParallelSeconds(scene);
  if (!pipeline) return seconds;
  return std::min(seconds, SimulatedSeconds(scene, pipeline->shape, pipeline->cut));
}

}  // namespace paceline::plan
