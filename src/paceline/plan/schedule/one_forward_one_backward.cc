// After as many forward passes as stages follow, a stage does one forward and one backward pass in
// turn, so that it holds few activations (D. Narayanan et al., "PipeDream", 2019; the flush at the
// end of each step is DAPPLE's and Megatron-LM's).

#include <algorithm>

#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

std::vector<Pass> OneOfEach(uint32_t stage, uint32_t stages, uint32_t micro_batches) {
  const uint32_t ahead = std::min(stages - stage - 1, micro_batches);
  std::vector<Pass> order;
  for (uint32_t i = 0; i < ahead; ++i) order.push_back({i, false});
  for (uint32_t i = 0; i + ahead < micro_batches; ++i) {
    order.push_back({i + ahead, false});
    order.push_back({i, true});
  }
  for (uint32_t i = micro_batches - ahead; i < micro_batches; ++i) order.push_back({i, true});
  return order;
}

uint32_t StagesThatFollow(uint32_t stage, uint32_t stages, uint32_t micro_batches) {
  return std::min(stages - stage, micro_batches);
}

}  // namespace

const Schedule kOneForwardOneBackward = {
    .name = "1f1b", .order = OneOfEach, .in_flight = StagesThatFollow};

}  // namespace paceline::plan
