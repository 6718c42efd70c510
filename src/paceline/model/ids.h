#pragma once

// Identities that cross process borders. All are strong types: a rank is not a node.

#include <cstdint>

#include "paceline/base/strong_id.h"

namespace paceline {

// A member of the job: one agent and the ranks under it. Given by the master at the first
// registration of a node name and kept for the life of the job, over agent restarts and reboots.
using NodeId = StrongId<struct NodeIdTag, uint32_t>;

// Fencing number of a world; the first world is generation 1 and 0 means "no world". Whatever
// carries a lower generation than the current one is stale and must not take effect.
using Generation = StrongId<struct GenerationTag, uint64_t>;

// Number of a training process within its world, 0 … world_size - 1.
using Rank = StrongId<struct RankTag, uint32_t>;

// One agent's stream to this master process. Not durable: a new master knows none.
using ConnectionId = StrongId<struct ConnectionIdTag, uint64_t>;

// Position of a record in the job's journal, from 1. Decisions name their causes by it.
using RecordSeq = StrongId<struct RecordSeqTag, uint64_t>;

}  // namespace paceline
