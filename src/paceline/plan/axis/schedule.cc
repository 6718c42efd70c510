#include "paceline/plan/schedule/schedule.h"

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"

namespace paceline::plan {
namespace {

// Why a backward pass cannot be divided into that of inputs and that of weights.
std::string RefusesInParts(const Scene& scene, const Shape& chosen) {
  if (chosen.recompute != 0) return "a backward pass in two parts would compute twice again";
  if (chosen.shard != 0) return "a backward pass in two parts is not built for sharded state";
  const auto has_any = [](uint32_t count) { return count > 0; };
  if (std::count_if(scene.counts.begin(), scene.counts.end(), has_any) > 1) {
    return "zero-bubble pipelines are planned for devices of one type, and there are several";
  }
  return "";
}

std::string RefusesSchedule(const Scene& scene, const Shape& chosen, uint32_t value) {
  if (value >= Schedules().size()) return "there is no such schedule";
  if (chosen.pipeline == 1 && value != 0) return "one stage has no schedule";
  if (chosen.pipeline > 1 && value == 0) return "a pipeline needs a schedule";
  const bool is_interleaved = Schedules()[value] == &kInterleaved;
  const bool is_in_parts = Schedules()[value] == &kZeroBubble;
  if (is_interleaved && chosen.virtual_stages == 1) return "a stage has one chunk of layers";
  if (is_in_parts) {
    if (std::string why = RefusesInParts(scene, chosen); !why.empty()) return why;
  } else if (!is_interleaved && chosen.virtual_stages > 1) {
    return Concat(Schedules()[value]->name, " has one chunk of layers a stage");
  }
  return Schedules()[value]->refuses(
      {chosen.pipeline, chosen.micro_batches, chosen.virtual_stages});
}

// In reverse order, because of equally fast schedules the last one needs the least memory.
std::vector<uint32_t> ScheduleValues(const Scene& scene, const Shape& chosen) {
  if (chosen.pipeline == 1) return {0};
  std::vector<uint32_t> values;
  for (auto value = static_cast<uint32_t>(Schedules().size() - 1); value > 0; --value) {
    // Each cut of a zero-bubble pipeline is a simulation, so it is only looked at if asked for.
    if (Schedules()[value] == &kZeroBubble) continue;
    if (RefusesSchedule(scene, chosen, value).empty()) values.push_back(value);
  }
  return values;
}

}  // namespace

const Axis kScheduleAxis = {.name = "schedule",
                            .alias = "schedule",
                            .field = &Shape::schedule,
                            .values = ScheduleValues,
                            .refuses = RefusesSchedule,
                            .words = [](uint32_t value) {
                              return std::string(value == 0 ? "" : Schedules()[value]->name);
                            }};

}  // namespace paceline::plan
