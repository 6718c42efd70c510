#pragma once

// The size that a user chose for the job while it trains (`paceline scale`), within the limits of
// --nnodes. Docs: docs/guides/scaling.md.
//
// The size is a target of all worlds from then on. A job that is smaller takes nodes as growth.h
// says, even with --grow never. A larger one shrinks as soon as that costs no step: the nodes on
// the highest seats become spares. A recovery in between forms the next world in the chosen size.

#include <cstdint>
#include <string>

#include "paceline/core/turn.h"

namespace paceline::core {

// Why the job cannot have so many nodes; "": it can.
std::string WhyNotSize(const JobState& state, uint32_t nodes, Room* room);

void OnSizeRequested(Turn& turn, const SizeRequested& event);

// True if the world has more nodes than the next one may have.
bool IsAboveChosen(const JobState& state);

// Shrinks the world to the chosen size if that is due. True: a record was emitted.
bool NoteShrink(Turn& turn);

}  // namespace paceline::core
