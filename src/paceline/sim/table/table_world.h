#pragma once

// Table servers under faults: the production LeaseBook, the journal's fold of routing and moves,
// and partitions with a counting model. Servers, targets of moves, workers and the master die at
// any step, and messages come late, twice or to a later process. Everything is drawn from a seed.
//
// Rows begin at 0, and a push adds 1 to the keys of its samples. At the end each key has its true
// count, and each partition is on the one server that the journal names.

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::sim {

// A planted bug. The check must find each one.
enum class TableCanary {
  kNone,
  kAckEarly,         // a worker acknowledges when one server has answered
  kPositionLater,    // a snapshot says that it has what was applied after its rows were copied
  kMoveWithoutSets,  // a partition moves without what it has applied
  kNoFreeze,         // the source applies pushes between the copy and the record
  kAnyProcess,       // the master takes the report of a process that has ended since
};
inline constexpr std::string_view kTableCanaryNames[] = {
    "none", "ack_early", "position_later", "move_without_sets", "no_freeze", "any_process"};
inline constexpr int kTableCanaries = 6;  // with kNone

struct TableOutcome {
  std::string wrong;    // empty: every sample counts once, and the world ended
  uint64_t pushes = 0;  // that were applied
  uint64_t moves = 0;   // records
  uint64_t losses = 0;  // of servers
  uint64_t unseed = 0;  // the next random number; equal in two runs of one seed
};

TableOutcome RunTableWorld(uint64_t seed, TableCanary canary);

}  // namespace paceline::sim
