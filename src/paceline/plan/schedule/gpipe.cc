// All forward passes, then all backward passes (Y. Huang et al., "GPipe", 2019).

#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

std::vector<Pass> ForwardThenBackward(uint32_t, uint32_t, uint32_t micro_batches) {
  std::vector<Pass> order;
  for (uint32_t i = 0; i < micro_batches; ++i) order.push_back({i, false});
  for (uint32_t i = 0; i < micro_batches; ++i) order.push_back({i, true});
  return order;
}

}  // namespace

const Schedule kGPipe = {
    .name = "gpipe",
    .order = ForwardThenBackward,
    .in_flight = [](uint32_t, uint32_t, uint32_t micro_batches) { return micro_batches; }};

}  // namespace paceline::plan
