#pragma once

// In which order the stages of a pipeline work on the micro-batches of a step, and how long a step
// then takes. To add a schedule: schedule/<name>.cc with its row, and the row in schedules.cc.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace paceline::plan {

struct Pass {
  uint32_t micro_batch = 0;
  bool is_backward = false;
};

struct Schedule {
  std::string_view name;
  // All passes of a stage, in the order in which it does them; stages count from 0.
  std::vector<Pass> (*order)(uint32_t stage, uint32_t stages, uint32_t micro_batches);
  // Micro-batches whose activations a stage holds at once, at most.
  uint32_t (*in_flight)(uint32_t stage, uint32_t stages, uint32_t micro_batches);
};

extern const Schedule kNoSchedule;  // one stage: passes one after the other
extern const Schedule kGPipe;
extern const Schedule kOneForwardOneBackward;

// Indexed by Shape::schedule; the first is for one stage.
std::span<const Schedule* const> Schedules();
std::optional<uint32_t> FindSchedule(std::string_view name);

// The cost of a micro-batch for a stage: its passes, and the transfer from the stage before (once
// for activations, and as long again for gradients on the way back).
struct StageTime {
  double forward = 0;
  double backward = 0;
  double transfer = 0;
  double after = 0;  // its own work after its last pass: exchange of gradients, optimizer
};

struct SimulatedStep {
  double seconds = 0;
  std::vector<double> busy;         // of each stage, `after` included
  std::vector<uint32_t> in_flight;  // the most that each stage held
};

// Simulates the stages' orders of passes. Returns nothing if the stages wait for each other for
// ever.
std::optional<SimulatedStep> Simulate(const std::vector<StageTime>& stages, uint32_t micro_batches,
                                      const Schedule& schedule);

}  // namespace paceline::plan
