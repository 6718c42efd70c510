#pragma once

// Records about a node whose memory runs out, and what follows from them.

#include "paceline/core/job_state.h"

namespace paceline::core {

// A part of Apply.
void NoteMemory(const Record& record, const MemoryShort& fact, JobState* state);

// What was recorded of that node in the current world; null: nothing.
const MemoryTold* MemoryToldOf(const JobState& state, const NodeState& node);

// True if a node is about to run out of memory, its limit stays, and no step has gone to storage
// since that was recorded: the next one goes there at once, so that less is lost.
bool HurriesForMemory(const JobState& state);

// "node1 may use 16 GiB now", if a rank of the last world was killed for want of memory and its
// node got more; "" otherwise.
std::string MoreMemoryText(const JobState& state);

}  // namespace paceline::core
