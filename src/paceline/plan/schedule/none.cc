#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

std::vector<Pass> OneAfterTheOther(uint32_t, uint32_t, uint32_t micro_batches) {
  std::vector<Pass> order;
  for (uint32_t i = 0; i < micro_batches; ++i) {
    order.push_back({i, false});
    order.push_back({i, true});
  }
  return order;
}

}  // namespace

const Schedule kNoSchedule = {.name = "none",
                              .order = OneAfterTheOther,
                              .in_flight = [](uint32_t, uint32_t, uint32_t) { return 1u; }};

}  // namespace paceline::plan
