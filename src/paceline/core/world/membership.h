#pragma once

// Which nodes belong to the job, and which stream is a node's. An event with a connection counts
// only if it is the node's newest connection.

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

// The node leaves now: it gets no seat any more, and is told to end.
void LetLeave(Turn& turn, NodeId node, std::string reason, std::vector<RecordSeq> causes);
// The node is taken out: as above, but its command fails, and the reason is its fault.
void EvictNode(Turn& turn, NodeId node, std::string reason, std::vector<RecordSeq> causes);
void OnJournalCaughtUp(Turn& turn);
// Does not count the last `time` as silence of the nodes: this master did not listen, or could not
// answer them.
void GiveTimeBack(Turn& turn, Duration time);

// Keeps the watch's count of connected members.
void CountConnection(Turn& turn, NodeId node, bool connected);

// Runs the detectors that may have changed their verdict, and records the verdicts.
void DetectLosses(Turn& turn);

}  // namespace paceline::core
