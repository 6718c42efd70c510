#include "paceline/plan/nothing_fits.h"

#include <algorithm>
#include <variant>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"
#include "paceline/plan/cost.h"
#include "paceline/plan/explain.h"
#include "paceline/plan/pass_table.h"
#include "paceline/plan/search.h"

namespace paceline::plan {
namespace {

constexpr uint32_t kFactorMax = 64;
constexpr int kMemoryHalvings = 8;
// These searches only test whether any plan fits.
constexpr SearchLimits kQuick = {.transitions = 20'000'000, .near = 1};

Cluster WithCounts(Cluster cluster, uint32_t factor) {
  for (DeviceRun& run : cluster.runs) run.count *= factor;
  return cluster;
}

Cluster WithMemory(Cluster cluster, double factor) {
  for (DeviceType& type : cluster.types) {
    type.memory = static_cast<uint64_t>(static_cast<double>(type.memory) * factor);
  }
  return cluster;
}

uint64_t MostMemory(const Scene& scene) {
  uint64_t most = 0;
  for (size_t type = 0; type < scene.counts.size(); ++type) {
    if (scene.counts[type] > 0) most = std::max(most, scene.cluster.types[type].memory);
  }
  return most;
}

}  // namespace

double NeedOf(const Scene& scene, const Shape& shape) {
  const StageLoad load = WholeModel(scene, shape.tensor);
  const double samples = shape.pipeline == 1 ? 1 : MicroBatchOf(scene, shape);
  return MemoryOf(scene, load, shape).BytesFor(samples, 1) / shape.pipeline;
}

std::string TooLargeText(const Scene& scene, const Shape& shape) {
  const double need = NeedOf(scene, shape);
  const auto room = static_cast<double>(MostMemory(scene));
  if (need <= room) {
    return shape.pipeline > 1
               ? "no cut into stages fits"
               : "the samples of a step do not fit in as many passes as there may be";
  }
  return Concat("a rank needs ", MemoryText(need), ", and the largest device has ",
                MemoryText(room));
}

std::string WhyNothingFits(const Scene& scene, const Shape& shape) {
  return Concat("even with ", WordsOf(shape), ", ", TooLargeText(scene, shape));
}

std::string SmallestChange(const ModelSummary& model, const Cluster& cluster,
                           const PlanWishes& wishes) {
  std::vector<std::string> changes;
  uint32_t devices = 0;
  for (const DeviceRun& run : cluster.runs) devices += run.count;
  for (uint32_t factor = 2; factor <= kFactorMax; factor *= 2) {
    if (!Fits(model, WithCounts(cluster, factor), wishes, kQuick)) continue;
    changes.push_back(Concat(devices * factor, " devices instead of ", devices));
    break;
  }
  double high = 1;
  while (high <= kFactorMax && !Fits(model, WithMemory(cluster, high), wishes, kQuick)) high *= 2;
  if (high <= kFactorMax) {
    double low = high / 2;
    for (int i = 0; i < kMemoryHalvings; ++i) {
      const double middle = (low + high) / 2;
      (Fits(model, WithMemory(cluster, middle), wishes, kQuick) ? high : low) = middle;
    }
    uint64_t most = 0;
    for (const DeviceType& type : cluster.types) most = std::max(most, type.memory);
    const auto room = static_cast<double>(most);
    changes.push_back(Concat(MemoryText(room * high),
                             " of memory on the largest device instead of ", MemoryText(room)));
  }
  if (changes.empty()) return "a smaller model, or more and larger devices";
  return JoinWith(changes, ", or ");
}

}  // namespace paceline::plan
