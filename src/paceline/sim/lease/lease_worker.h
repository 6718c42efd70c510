#pragma once

// Internals of the world of leases: a worker's state.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/data/lease/lease_book.h"

namespace paceline::sim {

// A training process with its lease client, as the ledger sees it.
struct LeaseWorker {
  using Counts = std::map<uint64_t, uint64_t>;  // by ordinal

  struct Held {
    OrdinalRange range;
    uint64_t done = 0;
    uint64_t confirmed = 0;
    uint64_t partition = 0;               // of a stream: the broker's number of it
    bool is_recalled = false;             // of a stream
    bool is_given_back = false;           // of a stream
    std::vector<OrdinalRange> gaps = {};  // of a stream; not confirmed yet
  };
  uint64_t rank = 0;
  uint64_t incarnation = 1;
  uint64_t generation = 1;
  bool is_alive = true;
  bool is_frozen = false;
  bool is_open = false;  // kOpen was sent on this link
  bool has_request = false;
  bool is_complete = false;
  std::optional<uint64_t> awaits_mark;  // a step
  uint64_t next_step = 1;
  uint64_t rewinds = 0;
  std::string position;  // of the last rewind
  bool awaits_rewind = false;
  std::map<uint64_t, Held> held;
  std::set<uint64_t> presenting;  // since the last reset
  uint64_t granted = 0;           // ordinals, since the rewind
  bool is_told = false;           // was told that ranks read different orders
  uint64_t next_number = 1;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> unconfirmed;  // number → lease, until
  Counts counts;                                                  // of its model
  std::map<uint64_t, std::string> marked;                         // step → position
  std::map<uint64_t, Counts> images;                              // step → saved counts

  struct Terms {
    uint64_t ordinals = 0;
    uint64_t world_size = 1;
    uint64_t lease_max = 1;
    bool follows_checkpoints = false;
    bool is_even = false;
    bool is_stream = false;
    Units units = {};
  };
  LeaseOpen Introduce(const Terms& terms) const {
    return {.name = "train",
            .terms = "{}",
            .ordinals = terms.ordinals,
            .rank = rank,
            .world_size = terms.world_size,
            .generation = generation,
            .incarnation = incarnation,
            .lease_max = terms.lease_max,
            .lease_first = terms.lease_max,
            .lease_ms = 100,
            .deadline_ms = 5'000,
            .follows_checkpoints = terms.follows_checkpoints,
            .is_even = terms.is_even,
            .is_stream = terms.is_stream,
            .unit = terms.units.unit,
            .epoch = terms.units.epoch};
  }
};

}  // namespace paceline::sim
