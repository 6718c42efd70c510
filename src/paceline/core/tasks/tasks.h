#pragma once

// A job of tasks: places them, restarts each alone, and ends the job. Driven by the state, like
// next_world.h.
//
//   kWaiting ──enough nodes, slots and ports──▶ kTasks ──chief and workers done──▶ kStopping
//       ▲                                        │  ▲
//       └───────── a node of a task is gone ─────┘  └── a task failed: a new generation of it
//
// The rungs of a task are: here again, at its old address; stop. TensorFlow's cluster is static, so
// if a node is lost, all tasks are placed anew. In a job with table servers only the tasks of that
// node start on others, if these have room. A server never ends by itself; the end of the job stops
// it.

#include <optional>

#include "paceline/core/turn.h"

namespace paceline::core {

// Does once what the state requires; true: a record was emitted. Only in kWaiting and kTasks.
bool SettleTasks(Turn& turn);

// A registration: a task that was started there and is not mentioned has ended unseen.
void NoteVanishedTasks(Turn& turn, NodeId node, Generation carried_out);

// The order of a node that has tasks; none: it has none.
std::optional<Assignment> TaskAssignment(const JobState& state, NodeId node);

}  // namespace paceline::core
