#pragma once

// How many workers and table servers a job has, and which partitions its servers move. Only of jobs
// with table servers: TensorFlow's cluster is static.
//
//   TasksScaled ──▶ new tasks start ──▶ partitions move, TablesMoved each ──▶ servers above the
//                                                                wanted number end, without any
//
// A partition belongs to the server that the journal names. The target of a move reports the
// partitions that it has received, with the generations of the source's process and its own. The
// master ignores a report of an earlier process, or of a move that is not the next one any more.

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/turn.h"
#include "paceline/model/table_routing.h"

namespace paceline::core {

// The tasks that are to run now. A server above the wanted number is one of them until its last
// partition has moved.
std::vector<Rank> WantedTasks(const JobState& state);

// Why the job cannot have so many; "": it can, and takes TasksRequested.
std::string WhyNotTasks(const JobState& state, uint32_t workers, uint32_t servers);

// The record that a report leads to; none: it is of an earlier process, or of another move.
std::optional<TablesMoved> MoveBy(const JobState& state, const PartitionsTaken& taken);

void OnTasksRequested(Turn& turn, const TasksRequested& event);
void OnPartitionsTaken(Turn& turn, const PartitionsTaken& event);

// A free slot on the node with the fewest tasks, for a task beside those; false: there is no slot
// with a port.
bool PlaceTask(Turn& turn, const std::vector<Task>& others, Task* task);

// Starts tasks that are missing, and ends those that the job has no more. True: a record was
// emitted.
bool PlaceScaled(Turn& turn);

// What the table servers are told.
RoutingNews NewsFor(const JobState& state);

// Parts of Apply.
void ScaleTasks(const Record& record, const TasksScaled& fact, JobState* state);
void MoveTables(const Record& record, const TablesMoved& fact, JobState* state);

}  // namespace paceline::core
