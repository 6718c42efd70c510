// 1F1B with several chunks of layers a stage, so that a stage waits for the others only as long as
// a chunk takes (D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters", 2021). Micro-batches go through the chunks in rounds. A round has as many
// micro-batches as the pipeline has stages, or a few more if their number is no multiple of it, as
// torch has it.

#include <algorithm>

#include "paceline/plan/schedule/rounds.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

// Forward passes of a stage before its first backward pass.
uint32_t WarmUpOf(uint32_t stage, const PipelineSize& size) {
  const uint32_t round = MicroBatchesOfRound(size);
  return std::min((size.chunks - 1) * round + 2 * (size.stages - 1 - stage),
                  size.micro_batches * size.chunks);
}

std::vector<Pass> InRounds(uint32_t stage, const PipelineSize& size) {
  const uint32_t round = MicroBatchesOfRound(size);
  const uint32_t all = size.micro_batches * size.chunks;
  const uint32_t warm_up = WarmUpOf(stage, size);
  std::vector<uint32_t> forwards(size.chunks, 0);  // of each chunk, the next micro-batch
  std::vector<uint32_t> backwards(size.chunks, 0);
  std::vector<Pass> order;
  for (uint32_t i = 0; i < all + warm_up; ++i) {
    if (i < all) {
      const uint32_t chunk = i / round % size.chunks;
      order.push_back({forwards[chunk]++, PassKind::kForward, chunk});
    }
    if (i >= warm_up) {
      const uint32_t chunk = size.chunks - 1 - (i - warm_up) / round % size.chunks;
      order.push_back({backwards[chunk]++, PassKind::kBackward, chunk});
    }
  }
  return order;
}

uint32_t PassesAhead(uint32_t stage, const PipelineSize& size) {
  return std::min(WarmUpOf(stage, size) + 1, size.micro_batches * size.chunks);
}

std::string RefusesInterleaving(const PipelineSize& size) {
  return RefusesRounds(size, "interleaved stages need", "interleaved stages");
}

}  // namespace

const Schedule kInterleaved = {.name = "interleaved-1f1b",
                               .order = InRounds,
                               .in_flight = PassesAhead,
                               .refuses = RefusesInterleaving};

}  // namespace paceline::plan
