#pragma once

// Identities that cross process borders. All are distinct types: a rank is not a node.

#include <cstdint>

#include "paceline/base/strong_id.h"

namespace paceline {

// A member of the job: one agent and its ranks. The master assigns it at the first registration of
// a node name, for the life of the job; it survives agent restarts and reboots.
using NodeId = StrongId<struct NodeIdTag, uint32_t>;

// The fencing number of a world. The first world is generation 1; 0 means "no world". Anything with
// a lower generation than the current one is outdated and must have no effect.
using Generation = StrongId<struct GenerationTag, uint64_t>;

// Number of a training process within its world, 0 … world_size - 1.
using Rank = StrongId<struct RankTag, uint32_t>;

// One agent's stream to this master process. Not durable: a new master knows none.
using ConnectionId = StrongId<struct ConnectionIdTag, uint64_t>;

// A record's position in the job's journal, from 1. Decisions refer to their causes by it.
using RecordSeq = StrongId<struct RecordSeqTag, uint64_t>;

}  // namespace paceline
