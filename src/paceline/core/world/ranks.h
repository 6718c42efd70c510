#pragma once

// Nodes' reports about their ranks: starts, steps and ends, and their effect on the world.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/turn.h"
#include "paceline/model/node.h"

namespace paceline::core {

// A world whose script never takes an optimizer step counts as running after this.
inline constexpr Duration kStepless = Duration::Seconds(30);

// True while any rank on it, of any world, may be alive.
bool HoldsRanks(const NodeLink& link);

struct NodeNews {
  Generation generation;
  uint32_t store_port = 0;
  const std::vector<RankReport>& ranks;
};

// Handles a report of changes.
void TakeNews(Turn& turn, NodeId node, const NodeNews& news);

// Handles a registration: an expected rank that is not mentioned is dead.
void TakeWholeTruth(Turn& turn, NodeId node, const NodeReport& report);

// A rank of this node did not start in time. Records a charged failure of that rank.
void FailStuckRank(Turn& turn, NodeId node, const std::string& reason);

// A rank of the current world hangs. Records a charged failure of that rank.
void FailHungRank(Turn& turn, Rank rank, const ExitCause& cause, RecordSeq verdict);

// Records that the world runs, that it made progress, or that all ranks are done. True: a record
// was emitted.
bool NoteAdvance(Turn& turn);

// When to call NoteAdvance again without an event.
Instant AdvanceDeadline(const JobState& state, const Watch& watch);

// A lost node does not count any more.
void ForgetNodeWatch(Turn& turn, NodeId node);

// Resets the world's counters.
void ResetWorldWatch(Turn& turn);

}  // namespace paceline::core
