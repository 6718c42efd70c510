#pragma once

// `paceline plan --show`: the plan of a job, and what its steps take beside what was predicted.

#include <cstdint>
#include <optional>
#include <string>

#include "paceline/cli/command.h"

namespace paceline::cli {

// What the steps of a world take on this host: of the slowest of its ranks, from its first step to
// its newest one. Checkpoints and evaluation between them count.
struct MeasuredSteps {
  uint32_t rank = 0;
  double seconds = 0;  // of a step
  uint64_t steps = 0;
};
// None: no rank of that world has done two steps here.
std::optional<MeasuredSteps> StepsOnPages(const std::string& run_dir, uint64_t generation);

int ShowPlan(Invocation& invocation);

}  // namespace paceline::cli
