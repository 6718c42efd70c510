#pragma once

// When does a world take in a node that joined while it trains? Docs: docs/guides/growth.md.
//
// Growing restarts every rank, so all steps since the last checkpoint are done again. The default
// takes a node in when that costs nothing: each step is in memory, or a checkpoint is newer than
// the node's arrival. A file that the script writes by itself counts when an earlier attempt was
// seen to go on from one. A job without all these waits until the world has to be formed anew for
// another reason, which takes joiners for nothing. A node that keeps coming and going waits longer
// each time.

#include "paceline/core/turn.h"

namespace paceline::core {

// Plans or decides a growth when one is due. True: something was recorded.
bool NoteGrowth(Turn& turn);

}  // namespace paceline::core
