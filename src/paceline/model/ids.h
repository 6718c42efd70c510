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

// A generation is `term << 32` plus the number of its world. The term is that of the master that
// formed the world: 0 on one machine; a platform gives each of a job's masters a higher one.
// Numbers count on over all terms, and people read the number alone.
inline constexpr int kWorldNumberBits = 32;
inline constexpr uint64_t kTermMax = 0xffff;  // every generation is an exact number in JSON
constexpr uint64_t TermOf(Generation generation) { return generation.value() >> kWorldNumberBits; }
constexpr uint64_t WorldNumber(uint64_t generation) {
  return generation & ((uint64_t{1} << kWorldNumberBits) - 1);
}
constexpr uint64_t WorldNumber(Generation generation) { return WorldNumber(generation.value()); }
constexpr Generation GenerationOf(uint64_t term, uint64_t number) {
  return Generation((term << kWorldNumberBits) + number);
}

// Number of a training process within its world, 0 … world_size - 1.
using Rank = StrongId<struct RankTag, uint32_t>;

// One agent's stream to this master process. Not durable: a new master knows none.
using ConnectionId = StrongId<struct ConnectionIdTag, uint64_t>;

// A record's position in the job's journal, from 1. Decisions refer to their causes by it.
using RecordSeq = StrongId<struct RecordSeqTag, uint64_t>;

}  // namespace paceline
