// After as many forward passes as stages follow, a stage does one forward and one backward pass in
// turn, so that it holds few activations (D. Narayanan et al., "PipeDream", 2019; the flush at the
// end of each step is DAPPLE's and Megatron-LM's).

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

std::vector<Pass> OneOfEach(uint32_t stage, const PipelineSize& size) {
  const uint32_t ahead = std::min(size.stages - stage - 1, size.micro_batches);
  std::vector<Pass> order;
  for (uint32_t i = 0; i < ahead; ++i) order.push_back({i, PassKind::kForward});
  for (uint32_t i = 0; i + ahead < size.micro_batches; ++i) {
    order.push_back({i + ahead, PassKind::kForward});
    order.push_back({i, PassKind::kBackward});
  }
  for (uint32_t i = size.micro_batches - ahead; i < size.micro_batches; ++i) {
    order.push_back({i, PassKind::kBackward});
  }
  return order;
}

uint32_t StagesThatFollow(uint32_t stage, const PipelineSize& size) {
  return std::min(size.stages - stage, size.micro_batches);
}

std::string RefusesFew(const PipelineSize& size) {
  if (size.micro_batches >= size.stages) return "";
  return Concat("1f1b needs a micro-batch for each of the ", size.stages, " stages");
}

}  // namespace

const Schedule kOneForwardOneBackward = {
    .name = "1f1b", .order = OneOfEach, .in_flight = StagesThatFollow, .refuses = RefusesFew};

}  // namespace paceline::plan
