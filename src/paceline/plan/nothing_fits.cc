#include "paceline/plan/nothing_fits.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"
#include "paceline/plan/cost.h"
#include "paceline/plan/explain.h"
#include "paceline/plan/pass_table.h"
#include "paceline/plan/search.h"

namespace paceline::plan {
namespace {

constexpr uint32_t kFactorMax = 64;
constexpr uint32_t kCountsTried = 64;  // of a range of device counts
constexpr int kMemoryHalvings = 8;
// These searches only test whether any plan fits.
constexpr SearchLimits kQuick = {.transitions = 20'000'000, .near = 1};

uint32_t DevicesOf(const Cluster& cluster) {
  uint32_t devices = 0;
  for (const DeviceRun& run : cluster.runs) devices += run.count;
  return devices;
}

// The cluster with this many devices, which are no fewer. Its runs keep their proportions.
Cluster WithDevices(Cluster cluster, uint32_t devices) {
  const uint64_t before = DevicesOf(cluster);
  uint64_t passed = 0;
  for (DeviceRun& run : cluster.runs) {
    const uint64_t from = passed * devices / before;
    passed += run.count;
    run.count = static_cast<uint32_t>(passed * devices / before - from);
  }
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

// A number of devices with which a plan fits; 0 if kFactorMax times as many are too few. First the
// number is doubled until a plan fits. Then at most kCountsTried numbers, spread evenly over the
// last range, are tried from the smallest one, and the search goes on between the first of them
// that fits and the one before it. A bisection would be wrong here: it takes for granted that a
// plan for fewer devices fits on more, but a number with fewer divisors may have no plan that fits.
uint32_t CountThatFits(const ModelSummary& model, const Cluster& cluster,
                       const PlanWishes& wishes) {
  const auto fits = [&](uint64_t devices) {
    return Fits(model, WithDevices(cluster, static_cast<uint32_t>(devices)), wishes, kQuick);
  };
  const uint64_t devices = DevicesOf(cluster);
  uint64_t low = devices;
  uint64_t high = 2 * devices;
  while (!fits(high)) {
    low = high;
    high *= 2;
    if (high > kFactorMax * devices) return 0;
  }
  while (high - low > 1) {
    const uint64_t stride = (high - low + kCountsTried - 1) / kCountsTried;
    uint64_t next = low + stride;
    while (next < high && !fits(next)) next += stride;
    high = std::min(next, high);
    low = next - stride;
  }
  return static_cast<uint32_t>(high);
}

// The plan that fits with the least factor for the memory of all devices.
std::optional<ParallelPlan> PlanOfLeastMemory(const ModelSummary& model, const Cluster& cluster,
                                              const PlanWishes& wishes) {
  std::optional<ParallelPlan> least;
  const auto fits = [&](double factor) {
    auto plan = AnyPlan(model, WithMemory(cluster, factor), wishes, kQuick);
    if (!plan) return false;
    least = std::move(plan);
    return true;
  };
  double high = 2;
  while (!fits(high)) {
    high *= 2;
    if (high > kFactorMax) return least;
  }
  double low = high / 2;
  for (int i = 0; i < kMemoryHalvings; ++i) {
    const double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return least;
}

}  // namespace

double NeedOf(const Scene& scene, const Shape& shape) {
  const StageLoad load = WholeModel(scene, shape);
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
  return Concat("a rank needs at least ", MemoryText(need), ", and the largest device has ",
                MemoryText(room));
}

SmallestChange ChangeThatFits(const Scene& scene, const Shape& smallest, const ModelSummary& model,
                              const PlanWishes& wishes) {
  SmallestChange change;
  std::vector<std::string> changes;
  if (const uint32_t devices = CountThatFits(model, scene.cluster, wishes)) {
    changes.push_back(Concat(devices, " devices instead of ", scene.devices));
  }
  if (const auto plan = PlanOfLeastMemory(model, scene.cluster, wishes)) {
    const auto& memory = plan->predicted.memory;
    const auto need = static_cast<double>(*std::max_element(memory.begin(), memory.end()));
    const auto room = static_cast<double>(MostMemory(scene));
    change.why = Concat("even with ", WordsOf(*plan), ", a rank needs ", MemoryText(need),
                        ", and the largest device has ", MemoryText(room));
    const bool are_alike = std::all_of(
        scene.cluster.types.begin(), scene.cluster.types.end(),
        [&](const DeviceType& type) { return static_cast<double>(type.memory) == room; });
    changes.push_back(Concat(MemoryText(need), " of memory on the largest device instead of ",
                             MemoryText(room),
                             are_alike ? "" : ", and as much more on the others"));
  } else {
    change.why = Concat("even with ", WordsOf(smallest), ", ", TooLargeText(scene, smallest));
  }
  change.fix =
      changes.empty() ? "a smaller model, or more and larger devices" : JoinWith(changes, ", or ");
  return change;
}

}  // namespace paceline::plan
