#pragma once

// Tasks: processes of a job that have no world. Each task has a kind, an address and a generation
// of its own, so that it can restart alone. A job has either a world or tasks.
//
// A task's rank is its kind times 2^24 plus its number, so it is above every rank of a world. The
// progress page, the starter's messages and the reports of ranks keep their formats.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/model/ids.h"

namespace paceline {

// The kinds of TensorFlow's TF_CONFIG. In a TensorFlow job the first of the workers that a user
// asks for is the chief. A job with table servers has workers and servers only.
enum class TaskKind : uint32_t { kChief = 1, kWorker = 2, kPs = 3, kEvaluator = 4 };
inline constexpr TaskKind kTaskKinds[] = {TaskKind::kChief, TaskKind::kWorker, TaskKind::kPs,
                                          TaskKind::kEvaluator};
inline constexpr uint32_t kTaskKindStep = 1u << 24;
inline constexpr uint32_t kTaskRankMax = 5 * kTaskKindStep - 1;
inline constexpr uint32_t kTasksMax = 4096;  // of a job

std::string_view TaskKindName(TaskKind kind);  // "chief", "worker", "ps", "evaluator"

// The tasks that a user asked for.
struct TaskSpec {
  uint32_t workers = 0;  // a chief is one of them; 0: the job has a world
  uint32_t servers = 0;
  uint32_t evaluators = 0;  // 0 or 1
  // Directory of the tables that paceline's own servers hold; "": the servers run the user's script
  std::string tables = {};
  bool is_on() const { return workers > 0; }
  bool has_tables() const { return !tables.empty(); }
  uint32_t count() const { return workers + servers + evaluators; }
  bool operator==(const TaskSpec&) const = default;
};

// A task in its place: a slot of a node, with the port that the node holds for that slot.
struct Task {
  Rank rank;
  NodeId node;
  uint32_t slot = 0;
  Generation generation;
  uint32_t restarts = 0;  // since all tasks were placed
  bool is_done = false;   // it has ended with exit code 0, and is not started again
  std::string host;
  uint32_t port = 0;
  bool operator==(const Task&) const = default;
};

inline bool IsTask(Rank rank) { return rank.value() >= kTaskKindStep; }
inline Rank TaskRank(TaskKind kind, uint32_t number) {
  return Rank(static_cast<uint32_t>(kind) * kTaskKindStep + number);
}
// Only of a task's rank.
inline TaskKind KindOfTask(Rank rank) {
  return static_cast<TaskKind>(rank.value() / kTaskKindStep);
}
inline uint32_t NumberOfTask(Rank rank) { return rank.value() % kTaskKindStep; }

// The ranks of the job's tasks, in order.
std::vector<Rank> TaskRanks(const TaskSpec& spec);

// "3"; of a task "ps-1".
std::string RankName(Rank rank);
// "rank 3"; of a task "ps-1".
std::string RankTitle(Rank rank);
// What the names of its log files begin with: "rank3"; of a task "ps-1".
std::string LogStem(Rank rank);
// The rank of such a beginning; none: it is no such text.
std::optional<Rank> RankOfLogStem(std::string_view stem);
// The rank of a task's name; none: it is no such name.
std::optional<Rank> TaskOfName(std::string_view name);

}  // namespace paceline
