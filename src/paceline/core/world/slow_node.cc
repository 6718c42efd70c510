#include "paceline/core/world/slow_node.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/core/next_world.h"
#include "paceline/core/world/free_change.h"

namespace paceline::core {

namespace {

// How often to compare the cost of a slow node with that of a switch.
constexpr Duration kLookAtCost = Duration::Seconds(1);

double Seconds(Duration time) { return static_cast<double>(time.nanoseconds()) * 1e-9; }

bool WasMoved(const NodeState& node, Instant now) {
  return node.moved_at != Instant() && now - node.moved_at < kMovedOnce;
}

// The node of all slow ranks; none if there are several, or if the loader of one is slow, because
// another host would read the same data.
std::optional<NodeId> OnlySlowNode(const JobState& state) {
  std::optional<NodeId> only;
  for (const SlowFinding& finding : state.slow) {
    const NodeState* node = state.Find(finding.node);
    if (node == nullptr || finding.is_data || !state.IsSeated(node->id)) return std::nullopt;
    if (only.has_value() && *only != node->id) return std::nullopt;
    only = node->id;
  }
  return only;
}

// The part of the job's speed that the slow ranks cost.
double CostOf(const JobState& state) {
  double most = 0;
  for (const SlowFinding& finding : state.slow) most = std::max(most, finding.cost);
  return most;
}

// How long the job still trains, by the steps of this world. Not known: as long as it has lived.
Duration TimeLeft(Turn& turn) {
  const JobState& state = turn.state();
  const Watch& watch = turn.watch();
  int64_t total = 0;
  for (const Seat& seat : state.world->seats) {
    for (const auto& [local, rank] : turn.Link(seat.node).ranks) {
      if (rank.generation == state.world->generation) total = std::max(total, rank.steps_total);
    }
  }
  const Duration trained = turn.now() - state.phase_since;
  if (total <= 0 || watch.step_count <= 0) return turn.now() - state.created_at;
  const double steps = static_cast<double>(std::max<int64_t>(0, total - watch.step));
  const double each = Seconds(trained) / static_cast<double>(watch.step_count);
  return Duration::Milliseconds(static_cast<int64_t>(steps * each * 1000));
}

// Why the change costs no step now; "": it would cost some, or no spare is there.
std::string WhyReplaceNow(Turn& turn, const SlowNode& slow) {
  const JobState& state = turn.state();
  const std::vector<Candidate> others = WithoutSlow(state, Candidates(turn), slow.node, turn.now());
  World next = *state.world;
  next.seats = NumberSeats(PlanSeats(next.seats, others, state.NextBounds()));
  if (next.seats.size() < state.world->seats.size()) return "";
  WorldChange change{.next = std::move(next),
                     .move = {{}, {slow.node}},
                     .wanted_by = "the finding",
                     .wanted_at = slow.since,
                     .saved_step = slow.saved_step,
                     .commits = slow.commits};
  for (const Seat& seat : change.next.seats) {
    if (!state.IsSeated(seat.node)) change.move.joiners.push_back(seat.node);
  }
  if (HasWrittenFile(turn, slow.since)) return "the script has written a checkpoint since";
  return WhyFree(turn, change);
}

}  // namespace

std::vector<Candidate> WithoutSlow(const JobState& state, std::vector<Candidate> candidates,
                                   NodeId slow, Instant now) {
  std::erase_if(candidates, [&](const Candidate& candidate) {
    const NodeState& node = *state.Find(candidate.node);
    if (candidate.node == slow || node.notice.has_value()) return true;
    return node.status == NodeState::Status::kSpare && WasMoved(node, now);
  });
  return candidates;
}

bool NoteSlow(Turn& turn) {
  const JobState& state = turn.state();
  Watch& watch = turn.watch();
  if (state.spec.slow_act != SlowAct::kReplace) return false;
  const bool is_calm =
      state.phase == Phase::kRunning && !state.incident.pending && !state.decision.pending;
  const std::optional<NodeId> only = is_calm ? OnlySlowNode(state) : std::nullopt;
  if (!only.has_value()) {
    watch.slow_node.reset();
    return false;
  }
  if (!watch.slow_node.has_value() || watch.slow_node->node != *only) {
    watch.slow_node = SlowNode{.node = *only,
                               .since = turn.now(),
                               .saved_step = NewestCheckpoint(turn),
                               .commits = state.checkpoints.commits,
                               .look_at = turn.now() + state.spec.slow_act_after};
  }
  SlowNode& slow = *watch.slow_node;
  if (turn.now() < slow.look_at) return false;
  const NodeState& node = *state.Find(slow.node);
  slow.look_at = turn.now() + kLookAtCost;
  if (WasMoved(node, turn.now()) || node.notice.has_value()) return false;
  const Duration left = TimeLeft(turn);
  if (CostOf(state) * Seconds(left) <= Seconds(watch.restart_took)) return false;
  slow.look_at = turn.now() + kLookAtSteps;
  const Instant grow_at = watch.grow_at;
  const std::string why = WhyReplaceNow(turn, slow);
  watch.grow_at = grow_at;  // what the change waits for is looked at by `look_at`
  if (why.empty()) return false;
  MARK("a slow node is replaced");
  turn.Emit(RecoveryDecided{.rung = Rung::kReplaceSlow,
                            .blamed = node.id,
                            .has_blamed = true,
                            .blamed_name = node.name,
                            .step = watch.step,
                            .saved_step = watch.saved_step,
                            .reason = Concat(node.name, " is slow and costs ",
                                             static_cast<int>(CostOf(state) * 100 + 0.5),
                                             " % of the speed, for about ", ToString(left),
                                             " more; a spare takes its ranks: ", why)},
            {state.world_seq});
  return true;
}

}  // namespace paceline::core
