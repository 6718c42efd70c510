#pragma once

// When does a world take in a node that joined while it trains? Docs: docs/guides/growth.md.
//
// Growing restarts every rank, so all steps since the last checkpoint are done again. The default
// waits for a checkpoint that is newer than the node's arrival: then nearly nothing is lost. A job
// that tells of no checkpoint waits for ever, or until the world has to be formed anew for another
// reason, which takes joiners for nothing. A node that keeps coming and going waits longer each
// time.

#include "paceline/core/turn.h"

namespace paceline::core {

// Plans or decides a growth when one is due. True: something was recorded.
bool NoteGrowth(Turn& turn);

}  // namespace paceline::core
