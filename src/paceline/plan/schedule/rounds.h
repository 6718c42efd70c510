#pragma once

// Schedules over several chunks of layers a stage: micro-batches go through the chunks in rounds of
// equal size.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "paceline/base/text.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {

inline uint32_t RoundsOf(const PipelineSize& size) {
  return std::max(1u, size.micro_batches / size.stages);
}

inline uint32_t MicroBatchesOfRound(const PipelineSize& size) {
  return size.micro_batches / RoundsOf(size);
}

// Why there are no such rounds, as one sentence; "" if there are. `what` needs them, as
// "interleaved stages need"; `stages` is how the sentence calls the stages.
inline std::string RefusesRounds(const PipelineSize& size, std::string_view what,
                                 std::string_view stages) {
  if (size.micro_batches < size.stages) {
    return Concat(what, " a micro-batch for each of the ", size.stages, " stages");
  }
  if (size.micro_batches % RoundsOf(size) == 0) return "";
  return Concat(size.micro_batches, " micro-batches make no equal rounds over ", size.stages, " ",
                stages);
}

}  // namespace paceline::plan
