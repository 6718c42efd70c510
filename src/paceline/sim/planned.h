#pragma once

// Jobs whose ranks train by a parallel plan: what the ranks report of it, and the truth about their
// devices.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/model/plan_note.h"
#include "paceline/plan/allocation.h"
#include "paceline/sim/options.h"

namespace paceline::sim {

// Returns the summary of a model of equal layers. Its parameters, gradients and optimizer states
// need `bytes` bytes.
std::string SummaryThatNeeds(uint64_t bytes);

// The devices of that node: as they are if `is_true`, else as its ranks report them.
plan::AllocatedDevices DevicesOf(const Options& options, uint32_t node, bool is_true);

// Whether these nodes' devices hold the model.
bool Holds(const Options& options, const std::vector<uint32_t>& nodes);
bool Holds(const Options& options, const plan::Allocation& devices);

// The note that rank 0 of a world sends; `nodes` has the node of each rank.
PlanNote NoteOf(const Options& options, Generation generation, const std::vector<uint32_t>& nodes);

}  // namespace paceline::sim
