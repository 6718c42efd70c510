#pragma once

// What nodes tell of their ranks: starts, steps and ends, and what they mean for the world.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/turn.h"
#include "paceline/model/node.h"

namespace paceline::core {

// A world whose script never takes an optimizer step counts as running after this.
inline constexpr Duration kStepless = Duration::Seconds(30);

// True while any rank of it, of whatever world, may be alive.
bool HoldsRanks(const NodeLink& link);

struct NodeNews {
  Generation generation;
  uint32_t store_port = 0;
  const std::vector<RankReport>& ranks;
};

// A report of what changed.
void TakeNews(Turn& turn, NodeId node, const NodeNews& news);

// A registration: a rank that should be there and is not mentioned is dead.
void TakeWholeTruth(Turn& turn, NodeId node, const NodeReport& report);

// A rank of this node did not start in time: a charged failure of it.
void FailStuckRank(Turn& turn, NodeId node, const std::string& reason);

// A rank of the current world hangs: a charged failure of it.
void FailHungRank(Turn& turn, Rank rank, const ExitCause& cause, RecordSeq verdict);

// Records that the world runs, that it got further than ever, or that all ranks are done, when it
// is so. True: something was recorded.
bool NoteAdvance(Turn& turn);

// When NoteAdvance has to be asked again without news.
Instant AdvanceDeadline(const JobState& state, const Watch& watch);

// A lost node counts no more.
void ForgetNodeWatch(Turn& turn, NodeId node);

// The world's counters start again.
void ResetWorldWatch(Turn& turn);

}  // namespace paceline::core
