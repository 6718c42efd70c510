#include "paceline/cli/drill/live_target.h"

#include <algorithm>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

// To add a kind: a row here, and its signals in live.cc. Its name is one of kinds.cc.
constexpr LiveKind kLiveKinds[] = {
    {"sigkill", DrillLoss::kRank},
    {"sigstop", DrillLoss::kStill},
    {"agent_kill", DrillLoss::kAgent},
    {"node_kill", DrillLoss::kNode},
};

bool IsOfRank(DrillLoss loss) { return loss == DrillLoss::kRank || loss == DrillLoss::kStill; }

// A rank that lives, on a node of this host.
struct Place {
  const wire::NodeStatus* node = nullptr;
  const wire::RankStatus* rank = nullptr;
};

// The one that is wished for, or else the one with the highest number.
Place FindPlace(const wire::JobStatus& status, const std::set<std::string>& here,
                const LiveWish& wish) {
  Place found;
  for (const wire::NodeStatus& node : status.nodes) {
    const bool is_meant = wish.node.empty() || wish.node == node.name;
    if (!is_meant || node.state != "seated" || !here.contains(node.name)) continue;
    for (const wire::RankStatus& rank : node.ranks) {
      if (rank.pid <= 0 || rank.state == "exited" || rank.generation != status.generation) continue;
      if (wish.rank.has_value() && rank.rank != *wish.rank) continue;
      if (found.rank == nullptr || rank.rank > found.rank->rank) found = {&node, &rank};
    }
  }
  return found;
}

}  // namespace

const LiveKind* FindLiveKind(std::string_view name) {
  const auto* found = std::find_if(std::begin(kLiveKinds), std::end(kLiveKinds),
                                   [&](const LiveKind& kind) { return kind.name == name; });
  return found == std::end(kLiveKinds) ? nullptr : found;
}

std::string LiveKindNames() {
  std::vector<std::string_view> names;
  for (const LiveKind& kind : kLiveKinds) names.push_back(kind.name);
  return JoinWith(names, ", ");
}

Result<LiveTarget> ChooseTarget(const wire::JobStatus& status, const std::set<std::string>& here,
                                const LiveKind& kind, const LiveWish& wish) {
  const Place found = FindPlace(status, here, wish);
  if (found.rank == nullptr && status.phase == "finished") {
    return Problem{.code = "PL-E169",
                   .what = "the job has finished",
                   .where = Concat("paceline drill ", kind.name),
                   .why = Visible(status.final_reason),
                   .fix = Concat("paceline ps lists the jobs of this host; or rehearse it in a job "
                                 "of its own: paceline drill ",
                                 kind.name)};
  }
  if (found.rank == nullptr) {
    std::string which;
    if (wish.rank.has_value()) which = Concat(" ", *wish.rank);
    if (!wish.node.empty()) which += " of " + Visible(wish.node);
    return Problem{
        .code = "PL-E169",
        .what = Concat("no rank", which, " lives on this host"),
        .where = Concat("paceline drill ", kind.name),
        .why = status.phase == "running" || status.phase == "starting"
                   ? "a drill sends signals, so it strikes only processes of its own host"
                   : "the job does not train now: " + Visible(status.pending),
        .fix =
            "paceline status lists nodes and ranks; type the command on the host "
            "that has them"};
  }
  LiveTarget target{
      .node = found.node->name, .agent_pid = found.node->agent_pid, .rank = {}, .rank_pids = {}};
  if (IsOfRank(kind.loss)) {
    target.rank = found.rank->rank;
    target.rank_pids = {found.rank->pid};
  } else if (kind.loss == DrillLoss::kNode) {
    for (const wire::RankStatus& rank : found.node->ranks) {
      if (rank.pid > 0 && rank.state != "exited") target.rank_pids.push_back(rank.pid);
    }
  }
  return target;
}

std::string TargetText(const LiveTarget& target, DrillLoss loss) {
  if (target.rank.has_value()) {
    return Concat("rank ", *target.rank, " on ", target.node, " (process ",
                  target.rank_pids.front(), ")");
  }
  const std::string agent = Concat(" agent (process ", target.agent_pid, ")");
  if (loss == DrillLoss::kAgent) return Concat(target.node, ": its", agent);
  return Concat(target.node, ": its", agent, " and ", Counted(target.rank_pids.size(), "rank"));
}

}  // namespace paceline::cli
