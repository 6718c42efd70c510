#pragma once

// A drill on a job that trains (`paceline drill KIND --job ID`): whether the job may be struck now,
// what that costs, and which later records follow from it. The command strikes by itself, once the
// record is durable. Docs: docs/guides/drills.md.

#include <optional>
#include <string>

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// A drill is refused if the newest checkpoint is older, because the ranks repeat all work since
// then.
inline constexpr Duration kFreshFor = Duration::Seconds(300);
// A drill without consequences counts as over after this time, and another one may follow.
inline constexpr Duration kDrillTime = Duration::Seconds(600);

struct DrillOutlook {
  std::string refusal;  // why the job is not struck; "": it may be
  std::string fix;      // what to do then
  std::string cost;     // what it costs, sentences; "" if it is refused
};

DrillOutlook OutlookOfDrill(Turn& turn, const DrillRequested& event);

// Records the drill, unless it is refused.
void OnDrillRequested(Turn& turn, const DrillRequested& event);

// A part of Apply.
void BeginDrill(const Record& record, const DrillStruck& fact, JobState* state);

// The record of the drill that struck this node, or this rank of it, a short time ago; 0: none did.
// Without a rank, a drill of one rank is not meant.
RecordSeq DrillBehind(const JobState& state, NodeId node, std::optional<Rank> rank = {});

}  // namespace paceline::core
