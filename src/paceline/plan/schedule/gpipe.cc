// All forward passes, then all backward passes (Y. Huang et al., "GPipe", 2019).

#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

std::vector<Pass> ForwardThenBackward(uint32_t, const PipelineSize& size) {
  std::vector<Pass> order;
  for (uint32_t i = 0; i < size.micro_batches; ++i) order.push_back({i, PassKind::kForward});
  for (uint32_t i = 0; i < size.micro_batches; ++i) order.push_back({i, PassKind::kBackward});
  return order;
}

}  // namespace

const Schedule kGPipe = {
    .name = "gpipe",
    .order = ForwardThenBackward,
    .in_flight = [](uint32_t, const PipelineSize& size) { return size.micro_batches; },
    .refuses = [](const PipelineSize&) { return std::string(); }};

}  // namespace paceline::plan
