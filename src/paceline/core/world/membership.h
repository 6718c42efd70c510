#pragma once

// Who belongs to the job, and through which stream a node speaks. Every event that carries a
// connection counts only when it is the node's newest one.

#include <string>

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

inline constexpr uint32_t kNodesMax = 100'000;
inline constexpr uint32_t kSlotsMax = 1024;
inline constexpr size_t kNameLengthMax = 128;

// [A-Za-z0-9._-]{1,128}, no leading dot.
bool IsNodeName(const std::string& name);

void OnMasterStarted(Turn& turn, const MasterStarted& event);
void OnRegistered(Turn& turn, const NodeRegistered& event);
void OnReported(Turn& turn, const NodeReported& event);
void OnHeard(Turn& turn, const NodesHeard& event);
void OnRankExited(Turn& turn, const RankExited& event);
void OnDisconnected(Turn& turn, const NodeDisconnected& event);
void OnGone(Turn& turn, const NodeGone& event);
void OnLeaving(Turn& turn, const NodeLeaving& event);
void OnJournalCaughtUp(Turn& turn);
// In which nobody here listened, or nobody there was answered.
void GiveTimeBack(Turn& turn, Duration time);

// Runs the detectors when one of them may have changed its mind, and records what they say.
void DetectLosses(Turn& turn);

}  // namespace paceline::core
