#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"

namespace paceline::plan {
namespace {

constexpr uint32_t kMicroBatchesMax = 1 << 16;

std::string RefusesMicroBatches(const Scene& scene, const Shape& chosen, uint32_t value) {
  const uint64_t share = scene.global_batch / chosen.data;
  if (value == 0) return "there is at least one micro-batch";
  if (value > share) return Concat("a replica has ", Counted(share, "sample"));
  if (value > kMicroBatchesMax) return Concat(kMicroBatchesMax, " micro-batches are the most");
  if (chosen.pipeline > 1 && share % value != 0) {
    return Concat("micro-batches of a pipeline are equal, and ", value, " does not divide the ",
                  share, " samples of a replica");
  }
  return "";
}

std::vector<uint32_t> MicroBatchValues(const Scene& scene, const Shape& chosen) {
  const uint64_t share = scene.global_batch / chosen.data;
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(share, kMicroBatchesMax));
  if (chosen.pipeline > 1) return Thinned(DivisorsOf(share, most), kDivisorsMost);
  std::vector<uint32_t> values;
  for (uint32_t value = 1; value <= most; value *= 2) {
    values.push_back(value);
    if (value > 1 && value + value / 2 <= most) values.push_back(value + value / 2);
  }
  return values;
}

}  // namespace

const Axis kMicroBatchesAxis = {
    .name = "micro_batches",
    .alias = "m",
    .field = &Shape::micro_batches,
    .values = MicroBatchValues,
    .refuses = RefusesMicroBatches,
    .words = [](uint32_t value) { return value == 1 ? "" : Concat(value, " micro-batches"); }};

}  // namespace paceline::plan
