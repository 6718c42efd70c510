#pragma once

// Jobs whose ranks train by a parallel plan: what they tell of it, and the truth about the devices.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/model/plan_note.h"
#include "paceline/plan/allocation.h"
#include "paceline/sim/options.h"

namespace paceline::sim {

// A model of equal layers whose parameters, gradients and optimizer states have so many bytes.
std::string SummaryThatNeeds(uint64_t bytes);

// The devices of that node. `is_true`: as they are; otherwise as its ranks tell of them.
plan::AllocatedDevices DevicesOf(const Options& options, uint32_t node, bool is_true);

// Whether these nodes' devices hold the model.
bool Holds(const Options& options, const std::vector<uint32_t>& nodes);
bool Holds(const Options& options, const plan::Allocation& devices);

// What rank 0 of a world tells; `nodes` has the node of each rank.
PlanNote NoteOf(const Options& options, Generation generation, const std::vector<uint32_t>& nodes);

}  // namespace paceline::sim
