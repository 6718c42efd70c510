#include <algorithm>

#include "paceline/plan/axis/axis.h"

namespace paceline::plan {
namespace {

constexpr auto kSelective = static_cast<uint32_t>(Recompute::kSelective);

bool SaysWhatIsKept(const Scene& scene) {
  return std::any_of(scene.rows.begin(), scene.rows.end(),
                     [](const LayerRow& row) { return row.selective.has_value(); });
}

std::string RefusesRecompute(const Scene& scene, const Shape&, uint32_t value) {
  if (value >= kRecomputeNames.size()) return "it is none (0), full (1) or selective (2)";
  if (value == kSelective && !SaysWhatIsKept(scene)) {
    return "the model's summary says of no layer what selective recomputation keeps";
  }
  return "";
}

std::vector<uint32_t> RecomputeValues(const Scene& scene, const Shape& chosen) {
  if (RefusesRecompute(scene, chosen, kSelective).empty()) return {0, kSelective, 1};
  return {0, 1};
}

std::string RecomputeWords(uint32_t value) {
  if (value == 0) return "";
  return value == kSelective ? "selective recomputation" : "recomputation";
}

}  // namespace

std::optional<uint32_t> FindRecompute(std::string_view name) {
  const auto found = std::find(kRecomputeNames.begin(), kRecomputeNames.end(), name);
  if (found == kRecomputeNames.end()) return std::nullopt;
  return static_cast<uint32_t>(found - kRecomputeNames.begin());
}

const Axis kRecomputeAxis = {.name = "recompute",
                             .alias = "ac",
                             .field = &Shape::recompute,
                             .values = RecomputeValues,
                             .refuses = RefusesRecompute,
                             .words = RecomputeWords};

}  // namespace paceline::plan
