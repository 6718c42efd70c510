#pragma once

// Limits that the user sets for a plan: the values that each axis may take.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/plan/execution.h"

namespace paceline::plan {

// The axes of a plan's shape, in the order in which the search chooses them.
enum class AxisId : uint32_t {
  kPipeline,
  kTensor,
  kSequence,
  kData,
  kMicroBatches,
  kVirtualStages,
  kShard,
  kRecompute,
  kSchedule,
};
inline constexpr size_t kAxisCount = 9;

// One value for each axis. The cuts (layers to stages, samples to replicas) are chosen afterwards.
struct Shape {
  uint32_t pipeline = 1;
  uint32_t tensor = 1;
  uint32_t sequence = 0;  // 0 or 1
  uint32_t data = 1;
  uint32_t micro_batches = 1;
  uint32_t virtual_stages = 1;  // chunks of layers of each stage
  uint32_t shard = 0;           // 0 or 1
  uint32_t recompute = 0;       // a value of Recompute
  uint32_t schedule = 0;        // index in Schedules(); 0 with one stage
  bool operator==(const Shape&) const = default;
};

struct PlanWishes {
  uint64_t global_batch = 0;
  // By AxisId: the values that are allowed. Empty: all.
  std::array<std::vector<uint32_t>, kAxisCount> only;
  // By AxisId: one sentence on what limits the axis, such as an annotation; "" for none.
  std::array<std::string, kAxisCount> because = {};
  const Execution* execution = &OurExecution();  // whose costs are predicted
  bool looks_at_chunks = false;  // at interleaved stages, too, where no value is asked for

  const std::vector<uint32_t>& OnlyOf(AxisId axis) const { return only[static_cast<size_t>(axis)]; }
  std::vector<uint32_t>& OnlyOf(AxisId axis) { return only[static_cast<size_t>(axis)]; }
};

}  // namespace paceline::plan
