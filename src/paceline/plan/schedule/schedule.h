#pragma once

// In which order the stages of a pipeline work on the micro-batches of a step, and how long a step
// then takes. To add a schedule: schedule/<name>.cc with its row, and the row in schedules.cc.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::plan {

// A backward pass is one pass, or two: of the inputs, and later of the weights.
enum class PassKind : uint8_t { kForward, kBackward, kInput, kWeight };

struct Pass {
  uint32_t micro_batch = 0;
  PassKind kind = PassKind::kForward;
  uint32_t chunk = 0;  // which of the stage's chunks of layers
  bool operator==(const Pass&) const = default;
};

// A stage has `chunks` chunks of layers. Chunk c of stage s is the virtual stage c × stages + s,
// and a micro-batch passes the virtual stages in their order.
struct PipelineSize {
  uint32_t stages = 1;
  uint32_t micro_batches = 1;
  uint32_t chunks = 1;
};

struct Schedule {
  std::string_view name;
  // All passes of a stage, in the order in which it does them; stages count from 0.
  std::vector<Pass> (*order)(uint32_t stage, const PipelineSize& size);
  // The most passes at once whose activations a stage holds: of a micro-batch through a chunk.
  uint32_t (*in_flight)(uint32_t stage, const PipelineSize& size);
  // Why there is no such order, as one sentence; "" if there is one. torch refuses the same sizes.
  std::string (*refuses)(const PipelineSize& size);
};

extern const Schedule kNoSchedule;  // one stage: passes one after the other
extern const Schedule kGPipe;
extern const Schedule kOneForwardOneBackward;
extern const Schedule kInterleaved;  // 1F1B over several chunks a stage
extern const Schedule kZeroBubble;   // a backward pass in two parts, over one or several chunks

// Indexed by Shape::schedule; the first is for one stage.
std::span<const Schedule* const> Schedules();
std::optional<uint32_t> FindSchedule(std::string_view name);

// The cost of a micro-batch for a virtual stage: its passes, and the transfer from the one before
// (once for activations, and as long again for gradients on the way back).
struct StageTime {
  double forward = 0;
  double backward = 0;
  double transfer = 0;
  double weight = 0;  // the part of `backward` for the weights
  // The stage's own work after its last pass: exchange of gradients, optimizer. Of several chunks,
  // the sum counts.
  double after = 0;
};

struct SimulatedStep {
  double seconds = 0;
  std::vector<double> busy;         // of each stage, `after` included
  std::vector<uint32_t> in_flight;  // the most that each stage held
};

// Simulates the stages' orders of passes. `times` has each virtual stage, in their order. Returns
// nothing if the stages wait for each other for ever.
std::optional<SimulatedStep> Simulate(const std::vector<StageTime>& times, const PipelineSize& size,
                                      const Schedule& schedule);

}  // namespace paceline::plan
