#include "paceline/model/task.h"

#include "paceline/base/text.h"

namespace paceline {

std::string_view TaskKindName(TaskKind kind) {
  switch (kind) {
    case TaskKind::kChief: return "chief";
    case TaskKind::kWorker: return "worker";
    case TaskKind::kPs: return "ps";
    case TaskKind::kEvaluator: return "evaluator";
  }
  return "task";
}

std::vector<Rank> TaskRanks(const TaskSpec& spec) {
  std::vector<Rank> ranks;
  if (!spec.is_on()) return ranks;
  const uint32_t chiefs = spec.has_tables() ? 0 : 1;
  if (chiefs > 0) ranks.push_back(TaskRank(TaskKind::kChief, 0));
  for (uint32_t i = 0; i + chiefs < spec.workers; ++i) {
    ranks.push_back(TaskRank(TaskKind::kWorker, i));
  }
  for (uint32_t i = 0; i < spec.servers; ++i) ranks.push_back(TaskRank(TaskKind::kPs, i));
  for (uint32_t i = 0; i < spec.evaluators; ++i) {
    ranks.push_back(TaskRank(TaskKind::kEvaluator, i));
  }
  return ranks;
}

std::string RankName(Rank rank) {
  if (!IsTask(rank)) return ToString(rank);
  return std::string(TaskKindName(KindOfTask(rank))) + "-" + std::to_string(NumberOfTask(rank));
}

std::string RankTitle(Rank rank) { return (IsTask(rank) ? "" : "rank ") + RankName(rank); }

std::string LogStem(Rank rank) { return (IsTask(rank) ? "" : "rank") + RankName(rank); }

std::optional<Rank> RankOfLogStem(std::string_view stem) {
  if (!TakePrefix(&stem, "rank")) return TaskOfName(stem);
  const auto number = ParseWhole<uint32_t>(stem);
  if (!number.has_value()) return std::nullopt;
  return Rank(*number);
}

std::optional<Rank> TaskOfName(std::string_view name) {
  for (const TaskKind kind : kTaskKinds) {
    std::string_view rest = name;
    if (!TakePrefix(&rest, TaskKindName(kind)) || !TakePrefix(&rest, "-")) continue;
    const auto number = ParseWhole<uint32_t>(rest);
    if (!number.has_value() || *number >= kTasksMax) return std::nullopt;
    return TaskRank(kind, *number);
  }
  return std::nullopt;
}

}  // namespace paceline
