#include "paceline/core/world/drill.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/core/next_world.h"

namespace paceline::core {

namespace {

DrillOutlook Refused(std::string why, std::string fix) {
  return {.refusal = std::move(why), .fix = std::move(fix)};
}

// For people: whole seconds are exact enough.
std::string Roughly(Duration time) {
  const int64_t seconds = std::max<int64_t>(1, (time.milliseconds() + 500) / 1000);
  return "about " + ToString(Duration::Seconds(seconds));
}

// When the newest state was saved from which the job would go on; none: no checkpoint is known.
// What was saved before the present world began has been restored then.
std::optional<Instant> SavedAt(Turn& turn, const DrillRequested& event, NodeId node) {
  const JobState& state = turn.state();
  const Watch& watch = turn.watch();
  std::optional<Instant> newest;
  const auto take = [&](std::optional<Instant> at) {
    if (at.has_value() && *at != Instant()) newest = std::max(newest.value_or(*at), *at);
  };
  take(watch.saved_at);
  if (state.has_resumed) take(watch.filed_at);
  if (state.checkpoints.committed.has_value()) take(state.checkpoints.committed_at);
  // The memory of a host outlives its ranks, but not the loss of the host.
  const CheckpointLedger& ledger = watch.checkpoints;
  take(event.loss == DrillLoss::kNode ? ledger.SavedAtWithout(node, *state.world)
                                      : ledger.SavedFor(*state.world, {}));
  if (newest.has_value()) newest = std::max(*newest, state.world_since);
  return newest;
}

// True if the world keeps its size without the node.
bool HasSpareFor(Turn& turn, NodeId node) {
  const JobState& state = turn.state();
  std::vector<Candidate> others = Candidates(turn);
  std::erase_if(others, [node](const Candidate& one) { return one.node == node; });
  const std::vector<Candidate> seats =
      PlanSeats(state.world->seats, std::move(others), state.NextBounds());
  return seats.size() >= state.world->seats.size() &&
         turn.watch().room.WhyNot(state, seats).empty();
}

// Why the failure of a rank would not be answered by a restart; "" if it would.
std::string WhyNoRestart(const JobState& state, DrillLoss loss) {
  if (state.budget.failures_without_progress > 0) {
    return "a failure came before, and the job has made no new step since then";
  }
  const auto& most = state.spec.max_restarts;
  if (most.has_value() && state.budget.charged_failures >= *most) {
    return Concat("--max-restarts ", *most, " is used up, so the job would end");
  }
  if (loss == DrillLoss::kStill && state.spec.only_tells_hangs) {
    return "in this job hangs are only reported, so nothing would restart the rank";
  }
  return "";
}

// The node that is struck; null with `why` if the drill's words name none that trains.
const NodeState* Struck(const JobState& state, const DrillRequested& event, std::string* why) {
  const NodeState* node = state.Find(event.node);
  if (node == nullptr || !state.IsSeated(node->id)) {
    *why = event.node + " has no ranks of the present world";
    return nullptr;
  }
  const Seat& seat = state.SeatOf(*node);
  if (!event.rank.has_value()) return node;
  const uint32_t local = event.rank->value() - seat.first_rank;  // very large if it is before
  if (event.rank->value() >= seat.first_rank && local < seat.rank_count) return node;
  *why = "rank " + ToString(*event.rank) + " is not on " + event.node;
  return nullptr;
}

std::string CostOf(const JobState& state, const Watch& watch, const DrillRequested& event,
                   Duration redo) {
  const std::string ranks = Counted(state.world->world_size(), "rank");
  if (event.loss == DrillLoss::kAgent) {
    return "no step is lost: the ranks of " + event.node +
           " train on, and its launcher starts the agent again";
  }
  std::string text;
  if (event.loss == DrillLoss::kNode) {
    text = event.node +
           " is lost and a spare takes its ranks; its launcher starts it again, as a spare. ";
  }
  if (event.loss == DrillLoss::kStill) {
    text = "all " + ranks + " stand still until the stopped rank is found, 3 s or three steps. ";
  }
  text += "all " + ranks + " start again and repeat " + Roughly(redo) + " of work; ";
  text += state.restart_count > 0 ? "the last restart took " + Roughly(watch.restart_took)
                                  : "how long a restart takes is not known, as there was none";
  if (event.loss != DrillLoss::kNode) text += ". It counts as one failure until the next new step";
  return text;
}

}  // namespace

DrillOutlook OutlookOfDrill(Turn& turn, const DrillRequested& event) {
  const JobState& state = turn.state();
  if (state.spec.tasks.is_on()) {
    return Refused("it is a job of tasks, which restart alone",
                   "rehearse it in a job with a world: paceline drill " + event.kind);
  }
  if (state.phase != Phase::kRunning) {
    return Refused("the job does not train now", "try again when paceline status says it trains");
  }
  if (state.incident.pending || state.decision.pending) {
    return Refused("a recovery is under way", "try again when the job trains again");
  }
  if (state.drill.has_value() && turn.now() - state.drill->at < kDrillTime) {
    return Refused(Concat("the drill before it, event ", state.drill->seq.value(), ", is not over"),
                   "try again when paceline why says what followed from it");
  }
  std::string why;
  const NodeState* node = Struck(state, event, &why);
  if (node == nullptr) return Refused(std::move(why), "paceline status lists nodes and ranks");
  if (event.loss == DrillLoss::kAgent) {
    return {.refusal = "", .fix = "", .cost = CostOf(state, turn.watch(), event, Duration())};
  }
  if (event.loss == DrillLoss::kNode && !HasSpareFor(turn, node->id)) {
    return Refused("no spare is there that could take the ranks of " + event.node,
                   "start a spare first (paceline run --spares 1, or paceline run on another "
                   "host), then try again");
  }
  why = event.loss == DrillLoss::kNode ? "" : WhyNoRestart(state, event.loss);
  if (!why.empty()) return Refused(std::move(why), "try again after the job's next progress");
  const std::optional<Instant> saved_at = SavedAt(turn, event, node->id);
  if (!saved_at.has_value()) {
    return Refused("no checkpoint is known, so all steps would be done again",
                   "try again after the next checkpoint (ckpt.save, or pl.saved in the script)");
  }
  const Duration redo = std::max(Duration(), turn.now() - *saved_at);
  if (redo > kFreshFor) {
    return Refused("the newest checkpoint that would be left is " + Roughly(redo) +
                       " old, and the limit is " + ToString(kFreshFor),
                   "try again after the next checkpoint");
  }
  return {.refusal = "", .fix = "", .cost = CostOf(state, turn.watch(), event, redo)};
}

void OnDrillRequested(Turn& turn, const DrillRequested& event) {
  if (!OutlookOfDrill(turn, event).refusal.empty()) return;
  MARK("a live job is struck");
  const JobState& state = turn.state();
  const NodeState& node = *state.Find(event.node);
  turn.Emit(DrillStruck{.node = node.id,
                        .name = node.name,
                        .generation = state.world->generation,
                        .has_rank = event.rank.has_value(),
                        .rank = event.rank.value_or(Rank()),
                        .kind = event.kind,
                        .loss = event.loss,
                        .reason = event.why},
            {state.world_seq});
}

void BeginDrill(const Record& record, const DrillStruck& fact, JobState* state) {
  state->drill = RunningDrill{.node = fact.node,
                              .has_rank = fact.has_rank,
                              .rank = fact.rank,
                              .at = record.at,
                              .seq = record.seq};
}

RecordSeq DrillBehind(const JobState& state, NodeId node, std::optional<Rank> rank) {
  if (!state.drill.has_value() || state.drill->node != node) return RecordSeq();
  const bool is_meant = !state.drill->has_rank || rank == state.drill->rank;
  return is_meant ? state.drill->seq : RecordSeq();
}

}  // namespace paceline::core
