#include "paceline/core/world/growth.h"

#include <algorithm>

#include "paceline/base/mark.h"
#include "paceline/core/detect/detectors.h"
#include "paceline/core/next_world.h"
#include "paceline/core/world/free_change.h"
#include "paceline/core/world/membership.h"
#include "paceline/core/world/resize.h"

namespace paceline::core {

namespace {

constexpr uint32_t kDoublingsMax = 8;
// A node under notice leaves at the latest this long before its platform takes it away, even if
// that costs steps.
constexpr Duration kLeaveBefore = Duration::Seconds(2);

// From when on a spare may join the world.
Instant EligibleAt(const JobState& state, const NodeState& node) {
  if (node.departures == 0) return node.since;
  const uint32_t doublings = std::min(node.departures - 1, kDoublingsMax);
  return node.since + state.spec.timers.join_window * (int64_t{1} << doublings);
}

struct Joiners {
  std::vector<Candidate> all;     // of the grown world
  std::vector<NodeId> new_nodes;  // those without a seat now
  Instant next = Instant::Max();  // when to look again: a node may be eligible, or heard again
};

Joiners FindJoiners(Turn& turn) {
  Joiners joiners;
  std::vector<Candidate> candidates = Candidates(turn);
  // A connected node that is suspect is no candidate. It makes no record when it is heard again.
  if (candidates.size() < turn.watch().connected_count) {
    joiners.next = turn.now() + HeartbeatInterval(turn.state().spec);
  }
  for (Candidate& candidate : candidates) {
    const NodeState& node = *turn.state().Find(candidate.node);
    if (node.notice.has_value()) continue;
    const bool seated = node.status == NodeState::Status::kSeated;
    const Instant eligible_at = EligibleAt(turn.state(), node);
    if (!seated && eligible_at > turn.now()) {
      joiners.next = std::min(joiners.next, eligible_at);
      continue;
    }
    if (!seated) joiners.new_nodes.push_back(candidate.node);
    joiners.all.push_back(std::move(candidate));
  }
  return joiners;
}

World NextWorld(const JobState& state, const Joiners& joiners) {
  World next = *state.world;
  next.seats = NumberSeats(PlanSeats(next.seats, joiners.all, state.NextBounds()));
  return next;
}

void DecideGrowth(Turn& turn, const Joiners& joiners, size_t size, const std::string& why) {
  const JobState& state = turn.state();
  MARK("world grows");
  std::vector<RecordSeq> causes{state.growth.seq};
  if (state.size.seq.value() != 0) causes.push_back(state.size.seq);
  for (const NodeId node : joiners.new_nodes) {
    if (causes.size() < kIncidentCausesMax) causes.push_back(state.Find(node)->cause);
  }
  const size_t before = state.world->seats.size();
  turn.Emit(RecoveryDecided{.rung = Rung::kNone,
                            .blamed = NodeId(),
                            .has_blamed = false,
                            .blamed_name = "",
                            .step = turn.watch().step,
                            .saved_step = turn.watch().saved_step,
                            .reason = "grows from " + std::to_string(before) + " to " +
                                      std::to_string(size) + " nodes: " + why},
            std::move(causes));
}

// Why the world grows now even if steps are then done twice; "": it does not.
std::string WhyAtOnce(const JobState& state) {
  const bool is_chosen = state.size.nodes > state.world->seats.size();
  if (is_chosen && state.size.at_once) return "requested at once";
  const bool is_now = state.spec.grow == GrowPolicy::kNow;
  return is_now ? "a node joined, and --grow now throws steps away for it" : "";
}

struct Leavers {
  std::vector<NodeId> seated;
  std::vector<NodeId> others;    // without a seat
  Instant due = Instant::Max();  // when the first one has to leave
};

Leavers FindLeavers(const JobState& state) {
  Leavers leavers;
  for (const auto& [id, node] : state.nodes) {
    if (!node.notice.has_value() || !node.IsMember()) continue;
    const bool is_seated = node.status == NodeState::Status::kSeated;
    (is_seated ? leavers.seated : leavers.others).push_back(id);
    leavers.due = std::min(leavers.due, node.notice->leave_by - kLeaveBefore);
  }
  return leavers;
}

// Why the seated leavers may go now without a loss of steps; empty: they may not yet.
std::string WhyLeave(Turn& turn, const std::vector<NodeId>& leavers) {
  const JobState& state = turn.state();
  const bool is_calm = state.world && !state.incident.pending && !state.decision.pending;
  if (!is_calm) return "";
  const Joiners joiners = FindJoiners(turn);
  // Without the leavers the world would be too small to train, so they train until their time is
  // over.
  if (WorldSize(state.NextBounds(), joiners.all.size()) == 0) return "";
  WorldChange change{.next = NextWorld(state, joiners),
                     .move = {joiners.new_nodes, leavers},
                     .wanted_by = "the notice"};
  for (const NodeId node : leavers) {
    change.saved_step = std::max(change.saved_step, state.Find(node)->notice->saved_step);
    change.wanted_at = std::max(change.wanted_at, state.Find(node)->notice->at);
  }
  return WhyFree(turn, change);
}

void LetAllLeave(Turn& turn, const std::vector<NodeId>& leavers, const std::string& why) {
  for (const NodeId node : leavers) {
    const LeaveNotice notice = *turn.state().Find(node)->notice;
    LetLeave(turn, node, "left (" + notice.reason + "): " + why, {notice.seq});
  }
}

}  // namespace

bool NoteLeavers(Turn& turn) {
  Watch& watch = turn.watch();
  if (turn.now() < watch.leave_at) return false;
  const JobState& state = turn.state();
  Leavers leavers = FindLeavers(state);
  watch.leave_at =
      leavers.seated.empty() ? Instant::Max() : std::min(turn.now() + kLookAtSteps, leavers.due);
  LetAllLeave(turn, leavers.others, "it has no seat");
  if (leavers.seated.empty()) return !leavers.others.empty();
  std::string why = WhyLeave(turn, leavers.seated);
  watch.grow_at = Instant::Max();  // nothing grows while a node is about to leave
  if (why.empty()) {
    std::erase_if(leavers.seated, [&](NodeId node) {
      return turn.now() < state.Find(node)->notice->leave_by - kLeaveBefore;
    });
    why = "its time is over";
  }
  if (leavers.seated.empty()) return !leavers.others.empty();
  MARK("a node under notice leaves its seat");
  LetAllLeave(turn, leavers.seated, why);
  watch.leave_at = turn.now();
  return true;
}

bool NoteGrowth(Turn& turn) {
  const JobState& state = turn.state();
  Watch& watch = turn.watch();
  if (!state.world || state.incident.pending || state.decision.pending) return false;
  if (!watch.leave_at.is_max()) return false;  // the world without the leavers takes joiners, too
  if (IsAboveChosen(state)) return false;      // it is about to shrink
  if (!watch.dirty && turn.now() < watch.grow_at) return false;
  watch.dirty = false;
  watch.grow_at = Instant::Max();
  const size_t seats = state.world->seats.size();
  const WorldBounds bounds = state.NextBounds();
  // A size that a user chose is reached whatever --grow says of nodes that come by themselves.
  const bool may_grow = state.spec.grow != GrowPolicy::kNever || state.size.nodes > seats;
  if (seats >= bounds.nodes_max || !may_grow) return false;
  if (watch.connected_count <= seats) return false;

  const Joiners joiners = FindJoiners(turn);
  watch.grow_at = joiners.next;
  const size_t size = WorldSize(bounds, joiners.all.size());
  // Growing while a seated node is not well would drop it.
  const bool all_well = joiners.all.size() == seats + joiners.new_nodes.size();
  if (size <= seats || !all_well) return false;
  const std::string hurry = WhyAtOnce(state);
  if (!hurry.empty()) {
    DecideGrowth(turn, joiners, size, hurry);
    return true;
  }
  const NodeState& node = *state.Find(joiners.new_nodes.front());
  if (IsAllInMemory(turn, NextWorld(state, joiners), {joiners.new_nodes, {}})) {
    MARK("a node joins from memory");
    DecideGrowth(turn, joiners, size,
                 "each step is in memory, so none is done twice for " + node.name);
    return true;
  }
  if (!state.growth.pending) {
    turn.Emit(GrowthPlanned{.node = node.id,
                            .name = node.name,
                            .saved_step = watch.saved_step,
                            .reason = watch.saved_step < 0 && !state.has_resumed
                                          ? "joins at the next world, or after the first "
                                            "checkpoint that the script reports"
                                          : "joins after the next checkpoint"},
              {node.cause});
    return true;
  }
  if (HasWrittenFile(turn, state.growth.at)) {
    MARK("a node joins after a file of the script");
    DecideGrowth(turn, joiners, size,
                 "the script has written a checkpoint since " + node.name +
                     " came, and is known to resume from one");
    return true;
  }
  if (watch.saved_step <= state.growth.saved_step || !HaveAllSaved(turn, state.growth.saved_step)) {
    return false;
  }
  DecideGrowth(turn, joiners, size,
               "the checkpoint of step " + std::to_string(watch.saved_step) +
                   " is newer than the arrival of " + node.name);
  return true;
}

}  // namespace paceline::core
