// The schedule ZB-H1 divides each backward pass in two: the gradients of the inputs, for which the
// stage before waits, and those of the weights, for which nobody waits. A stage computes the latter
// when it would wait otherwise (P. Qi et al., "Zero Bubble Pipeline Parallelism", 2024). A stage
// may have several chunks of layers. The order is that of torch's ScheduleInterleavedZeroBubble.

#include <algorithm>

#include "paceline/plan/schedule/rounds.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

// Forward passes of a stage before its first backward pass.
uint32_t WarmUpInParts(uint32_t stage, const PipelineSize& size) {
  const uint32_t round = MicroBatchesOfRound(size);
  return std::min((size.chunks - 1) * round + size.stages - 1 - stage,
                  size.micro_batches * size.chunks);
}

std::vector<Pass> InParts(uint32_t stage, const PipelineSize& size) {
  const uint32_t round = MicroBatchesOfRound(size);
  const uint32_t all = size.micro_batches * size.chunks;
  const uint32_t warm_up = WarmUpInParts(stage, size);
  std::vector<uint32_t> forwards(size.chunks, 0);  // of each chunk, the next micro-batch
  std::vector<uint32_t> inputs(size.chunks, 0);
  std::vector<uint32_t> weights(size.chunks, 0);
  std::vector<Pass> order;
  const auto chunk_back = [&](uint32_t i) { return size.chunks - 1 - i / round % size.chunks; };
  uint32_t weighed = 0;
  const auto add_weights = [&] {
    const uint32_t chunk = chunk_back(weighed++);
    order.push_back({weights[chunk]++, PassKind::kWeight, chunk});
  };
  for (uint32_t i = 0; i < all + warm_up; ++i) {
    if (i < all) {
      const uint32_t chunk = i / round % size.chunks;
      order.push_back({forwards[chunk]++, PassKind::kForward, chunk});
    }
    if (i < warm_up) continue;
    const uint32_t chunk = chunk_back(i - warm_up);
    order.push_back({inputs[chunk]++, PassKind::kInput, chunk});
    // The stage holds weights back that it will need to fill its waiting at the end.
    if (i - warm_up >= stage) add_weights();
  }
  while (weighed < all) add_weights();
  return order;
}

uint32_t HeldForWeights(uint32_t stage, const PipelineSize& size) {
  return std::min(WarmUpInParts(stage, size) + stage + 1, size.micro_batches * size.chunks);
}

std::string RefusesParts(const PipelineSize& size) {
  return RefusesRounds(size, "a backward pass in two parts needs", "stages");
}

}  // namespace

const Schedule kZeroBubble = {
    .name = "zero-bubble", .order = InParts, .in_flight = HeldForWeights, .refuses = RefusesParts};

}  // namespace paceline::plan
