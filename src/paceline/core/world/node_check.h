#pragma once

// The checks of the user: a node whose checks run is no candidate, and one that failed them is
// taken out. The checks are repeated for a node that is slow, or whose ranks were moved.

#include <string>

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

void OnCheckEnded(Turn& turn, const NodeCheckEnded& event);

// Acts on what the node's agent said last of its checks. Call it when the node has joined.
void TakeCheck(Turn& turn, NodeId id);

// Looks for a node without a seat that measured itself (`run --node-check`) as much slower than the
// median of the others. It is measured once more, and taken out if it is slow again. Returns true
// if there was one; call it again then.
bool CompareHosts(Turn& turn);

// Orders the checks of a node whose ranks a spare has taken, before the node may be a spare itself.
// Returns true if it wrote a record.
bool NoteMoved(Turn& turn);

// Parts of Apply.
void NoteCheck(const NodeChecked& fact, JobState* state);
void NoteCheckOrder(const NodeCheckOrdered& fact, JobState* state);

// "; n2 is being checked; n3 failed its checks: …", or "".
std::string ChecksText(Turn& turn);

}  // namespace paceline::core
