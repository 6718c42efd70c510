#pragma once

// What a plan must look like, as far as somebody cares: the values that each axis may take.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::plan {

// The axes of a plan's shape, in the order in which the search chooses them.
enum class AxisId : uint32_t {
  kPipeline,
  kTensor,
  kData,
  kMicroBatches,
  kShard,
  kRecompute,
  kSchedule,
};
inline constexpr size_t kAxisCount = 7;

// One choice of all axes. What is left to choose are the cuts: layers to stages, samples to
// replicas.
struct Shape {
  uint32_t pipeline = 1;
  uint32_t tensor = 1;
  uint32_t data = 1;
  uint32_t micro_batches = 1;
  uint32_t shard = 0;      // 0 or 1
  uint32_t recompute = 0;  // 0 or 1
  uint32_t schedule = 0;   // index in Schedules(); 0 with one stage
  bool operator==(const Shape&) const = default;
};

struct PlanWishes {
  uint64_t global_batch = 0;
  // By AxisId: the values that are allowed. Empty: all.
  std::array<std::vector<uint32_t>, kAxisCount> only;
  // By AxisId: who limits it, as one sentence; "" if that needs no word.
  std::array<std::string, kAxisCount> because = {};

  const std::vector<uint32_t>& OnlyOf(AxisId axis) const { return only[static_cast<size_t>(axis)]; }
  std::vector<uint32_t>& OnlyOf(AxisId axis) { return only[static_cast<size_t>(axis)]; }
};

}  // namespace paceline::plan
