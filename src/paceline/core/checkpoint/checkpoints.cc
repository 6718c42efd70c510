#include "paceline/core/checkpoint/checkpoints.h"

#include <algorithm>
#include <utility>

#include "paceline/core/chosen_size.h"
#include "paceline/core/memory_told.h"

namespace paceline::core {
namespace {

bool IsNodeGone(const JobState& state, NodeId id) {
  const NodeState* node = state.Find(id);
  return node != nullptr && !node->IsMember() && !state.incident.pending;
}

bool HasRankEnded(Turn& turn, NodeId node, Rank rank) {
  if (IsNodeGone(turn.state(), node)) return true;
  const auto link = turn.links().find(node);
  if (link == turn.links().end() || !turn.state().world.has_value()) return false;
  const Generation generation = turn.state().world->generation;
  return std::any_of(link->second.ranks.begin(), link->second.ranks.end(), [&](const auto& entry) {
    const RankReport& report = entry.second;
    return report.rank == rank && report.generation == generation &&
           report.state == RankReport::State::kExited;
  });
}

std::vector<NodeId> MembersOf(const JobState& state) {
  std::vector<NodeId> members;
  for (const auto& [id, node] : state.nodes) {
    if (node.IsMember()) members.push_back(id);
  }
  return members;
}

CheckpointView ViewOf(Turn& turn) {
  const JobState& state = turn.state();
  const bool is_ending = state.phase == Phase::kStopping || state.phase == Phase::kFinished;
  const World* world = state.world.has_value() ? &*state.world : nullptr;
  // Images of a world that has just ended may still be stored.
  if (world == nullptr && is_ending && state.AnyWorldYet()) world = &state.last_world;
  const bool is_short = state.finished_count > 0;
  const auto is_gone = [&state](NodeId node) { return IsNodeGone(state, node); };
  return {.book = state.checkpoints,
          .world = world,
          .job_id = state.spec.job_id,
          .is_ending = is_ending,
          .is_hurried = world != nullptr && (!turn.watch().leave_at.is_max() ||
                                             HurriesStorage(state) || HurriesForMemory(state)),
          .failures = state.budget.charged_failures,
          .age = turn.now() - state.world_since,
          .has_lost_past = state.has_lost_past,
          .has_ended = [&turn](NodeId node, Rank rank) { return HasRankEnded(turn, node, rank); },
          .is_gone = is_short ? IsGone(is_gone) : IsGone(),
          .members = is_ending || is_short ? MembersOf(state) : std::vector<NodeId>(),
          .storage_wait = state.spec.timers.storage_wait};
}

}  // namespace

void OnCheckpointReported(Turn& turn, const CheckpointReported& event) {
  const auto found = turn.links().find(event.node);
  if (found == turn.links().end() || found->second.connection != event.connection) return;
  const NodeState& node = *turn.state().Find(event.node);
  if (node.status == NodeState::Status::kLeft && node.notice.has_value()) return;
  turn.watch().checkpoints.Report(event.node, event.report);
  if (turn.state().only_stores) turn.watch().dirty = true;
}

bool NoteCheckpoints(Turn& turn) {
  CheckpointLedger& ledger = turn.watch().checkpoints;
  const CheckpointView view = ViewOf(turn);
  if (!ledger.IsDue(turn.now(), view, turn.watch().is_calm)) return false;
  std::vector<std::string> said;
  std::optional<CheckpointFact> fact = ledger.Next(turn.now(), view, &said);
  for (std::string& text : said) turn.Say(Note::Level::kWarning, std::move(text));
  if (!fact.has_value()) return false;
  if (auto* damaged = std::get_if<CheckpointDamaged>(&*fact)) {
    damaged->node_name = turn.state().NameOf(damaged->node);
  }
  if (const auto* committed = std::get_if<CheckpointCommitted>(&*fact)) {
    turn.watch().saved_step = std::max(turn.watch().saved_step, committed->saved.step);
  }
  std::visit([&](auto& body) { turn.Emit(std::move(body)); }, *fact);
  return true;
}

void TellCheckpoints(Turn& turn) {
  CheckpointLedger& ledger = turn.watch().checkpoints;
  const std::vector<NodeId> newcomers = ledger.TakeNewcomers();
  const bool tells_all = ledger.TakeChanged();
  if (!tells_all && newcomers.empty()) return;
  const CheckpointView view = ViewOf(turn);
  const auto tell = [&](NodeId node, NodeLink& link) {
    if (!link.connection) return;
    CheckpointOrder order = ledger.OrderFor(node, view);
    if (order == link.told_checkpoint) return;
    link.told_checkpoint = order;
    turn.Do(OrderCheckpoint{node, std::move(order)});
  };
  if (!tells_all) {
    for (const NodeId node : newcomers) tell(node, turn.Link(node));
    return;
  }
  for (auto& [node, link] : turn.links()) tell(node, link);
}

bool HasWhole(Turn& turn, SavedStep saved) {
  return turn.watch().checkpoints.IsWhole(MembersOf(turn.state()), saved);
}

bool AwaitsStorage(Turn& turn) { return !turn.watch().checkpoints.is_over(); }

}  // namespace paceline::core
