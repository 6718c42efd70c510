#pragma once

// The size that a user chose for the job while it trains (`paceline scale`), within the limits of
// --nnodes. Docs: docs/guides/scaling.md.
//
// The size is a target of all worlds from then on. A job that is smaller takes nodes as growth.h
// says, even with --grow never. A larger one shrinks as soon as that costs no step: the nodes on
// the highest seats become spares. A recovery in between forms the next world in the chosen size.

#include <cstdint>
#include <string>

#include "paceline/core/chosen_size.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// Why the job cannot have so many nodes; "": it can.
std::string WhyNotSize(const JobState& state, uint32_t nodes, Room* room);

void OnSizeRequested(Turn& turn, const SizeRequested& event);

// What a world that is above the chosen size waits for: "goes down to 2, as requested, after the
// next step that is saved".
std::string ShrinkText(const JobState& state, const Watch& watch);

// Shrinks the world to the chosen size if that is due. True: a record was emitted.
bool NoteShrink(Turn& turn);

}  // namespace paceline::core
