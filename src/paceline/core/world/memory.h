#pragma once

// What the job does when the memory of a node runs out. Docs: docs/guides/scaling.md.
//
// Before the kernel kills a rank, the desk (core/scale/memory_desk.h) says when the limit is
// reached. The limit is raised in place if it is that of the node's own cgroup and below `most`:
// no rank is restarted. Otherwise the job tells, and the next step that is saved goes to storage at
// once. After a kill at the limit of the node's own cgroup the limit is raised all the same, and
// the failure costs no budget. A kill at `most` ends the job, because a restart would be killed
// again.

#include <optional>

#include "paceline/core/turn.h"

namespace paceline::core {

void OnMemoryForeseen(Turn& turn, const MemoryForeseen& event);

// The kernel killed the rank at the limit of its node's own cgroup, which is `most` already.
bool IsKilledAtMost(const JobState& state, const ExitCause& cause);

// Raises the limit after such a kill below `most`. `failure`: its record.
void RaiseAfterKill(Turn& turn, NodeId node, const RankReport& rank, RecordSeq failure);

}  // namespace paceline::core
