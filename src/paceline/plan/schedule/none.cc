#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

std::vector<Pass> OneAfterTheOther(uint32_t, const PipelineSize& size) {
  std::vector<Pass> order;
  for (uint32_t i = 0; i < size.micro_batches; ++i) {
    order.push_back({i, PassKind::kForward});
    order.push_back({i, PassKind::kBackward});
  }
  return order;
}

}  // namespace

const Schedule kNoSchedule = {.name = "none",
                              .order = OneAfterTheOther,
                              .in_flight = [](uint32_t, const PipelineSize&) { return 1u; },
                              .refuses = [](const PipelineSize&) { return std::string(); }};

}  // namespace paceline::plan
