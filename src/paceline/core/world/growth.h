#pragma once

// When a world takes in a node that joined during training. Docs: docs/guides/growth.md.
//
// Growing restarts every rank, so all steps since the last checkpoint are repeated. The default
// takes a node in when that costs nothing: each step is in memory, or a checkpoint is newer than
// the node's arrival. A file that the script writes counts if an earlier attempt has resumed from
// one. A job without these waits until its world is formed anew for another reason, which takes
// joiners at no cost. A node that keeps coming and going waits longer each time.
//
// A leaver is to the next world what a joiner is: a node that its platform takes away (NodeNoticed)
// trains on until its absence costs nothing, because the others have the newest step in memory, or
// a checkpoint is newer than the notice. It leaves two seconds before the platform's deadline in
// any case.

#include "paceline/core/turn.h"

namespace paceline::core {

// Plans or decides a growth if one is due. True: a record was emitted.
bool NoteGrowth(Turn& turn);

// Lets nodes under notice leave if that is due. True: a record was emitted.
bool NoteLeavers(Turn& turn);

}  // namespace paceline::core
