#include "paceline/core/world/resize.h"

#include <algorithm>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/core/detect/detectors.h"
#include "paceline/core/next_world.h"
#include "paceline/core/world/free_change.h"
#include "paceline/core/world/wish.h"

namespace paceline::core {

namespace {

// The nodes that keep a seat if the world shrinks to `bounds`.
std::vector<Candidate> Kept(const JobState& state, const World& world, const WorldBounds& bounds) {
  std::vector<Candidate> seated;
  for (const Seat& seat : world.seats) {
    const NodeState& node = *state.Find(seat.node);
    seated.push_back({.node = node.id, .name = node.name, .slots = node.slots});
  }
  return PlanSeats(world.seats, std::move(seated), bounds);
}

bool IsEachSeatWell(Turn& turn) {
  const JobState& state = turn.state();
  const std::vector<Candidate> well = Candidates(turn);
  const auto is_seated = [&](const Candidate& one) { return state.IsSeated(one.node); };
  const auto count = std::count_if(well.begin(), well.end(), is_seated);
  return static_cast<size_t>(count) == state.world->seats.size();
}

}  // namespace

std::string WhyNotSize(const JobState& state, uint32_t nodes, Room* room) {
  const JobSpec& spec = state.spec;
  if (state.phase == Phase::kEmpty) return "no job was submitted yet";
  if (state.phase == Phase::kStopping) return "the job stops";
  if (state.phase == Phase::kFinished) return "the job has ended";
  if (spec.tasks.is_on()) return "it is a job of tasks, whose cluster is static";
  if (nodes < spec.nodes_min || nodes > spec.nodes_max) {
    return "the job was started with --nnodes " + std::to_string(spec.nodes_min) + ":" +
           std::to_string(spec.nodes_max);
  }
  if (spec.unit > 1 && nodes % spec.unit != 0) {
    return "its worlds have a multiple of " + std::to_string(spec.unit) + " nodes";
  }
  if (const uint32_t ranks = state.RanksFixed(); ranks > 0) {
    return "each rank has parameters of its own, so that only " + std::to_string(ranks) +
           " ranks can go on from a checkpoint";
  }
  if (!state.world || nodes >= state.world->seats.size()) return "";
  return room->WhyNot(state, Kept(state, *state.world, {spec.nodes_min, nodes, spec.unit}));
}

void OnSizeRequested(Turn& turn, const SizeRequested& event) {
  const JobState& state = turn.state();
  const bool is_repeated = state.size.nodes == event.nodes && state.size.at_once == event.at_once &&
                           state.size.is_measured == event.is_measured;
  if (is_repeated || !WhyNotSize(state, event.nodes, &turn.watch().room).empty()) return;
  MARK("a size is chosen");
  turn.Emit(SizeChosen{.nodes = event.nodes,
                       .saved_step = NewestCheckpoint(turn),
                       .at_once = event.at_once,
                       .reason = event.why,
                       .is_measured = event.is_measured});
  turn.watch().dirty = true;
}

std::string ShrinkText(const JobState& state, const Watch& watch) {
  const std::string text =
      "goes down to " + std::to_string(state.NextBounds().nodes_max) + ", as requested, ";
  if (const auto saved = watch.checkpoints.newest_in_memory()) {
    if (saved->step <= state.size.saved_step) return text + "after the next step that is saved";
    return text + "when step " + std::to_string(saved->step) +
           " or a later one is in storage, or in the memory of the nodes that stay";
  }
  if (watch.saved_step >= 0 || state.has_resumed) {
    return text + "after the next checkpoint of the script";
  }
  return text + "after the first checkpoint of the script (--now does not wait)";
}

bool NoteShrink(Turn& turn) {
  const JobState& state = turn.state();
  Watch& watch = turn.watch();
  if (!IsAboveChosen(state) || state.incident.pending || state.decision.pending) return false;
  if (!watch.leave_at.is_max()) return false;  // the world without the leavers has the chosen size
  if (!watch.dirty && turn.now() < watch.grow_at) return false;
  watch.dirty = false;
  watch.grow_at = turn.now() + kLookAtSteps;
  if (!IsEachSeatWell(turn)) return false;
  const std::vector<Candidate> kept = Kept(state, *state.world, state.NextBounds());
  if (kept.empty() || !watch.room.WhyNot(state, kept).empty()) return false;

  WorldChange change{.next = *state.world,
                     .move = {},
                     .wanted_by = "the request",
                     .wanted_at = state.size.at,
                     .saved_step = state.size.saved_step,
                     .commits = state.size.commits};
  change.next.seats = NumberSeats(kept);
  for (const Seat& seat : state.world->seats) {
    const auto is_it = [&](const Candidate& one) { return one.node == seat.node; };
    if (std::none_of(kept.begin(), kept.end(), is_it)) change.move.leavers.push_back(seat.node);
  }
  std::string why = state.size.at_once ? "requested at once" : WhyFree(turn, change);
  if (why.empty() && HasWrittenFile(turn, state.size.at)) {
    why = "the script has written a checkpoint since the request, and is known to resume from one";
  }
  if (why.empty()) return false;
  MARK("a job shrinks as requested");
  turn.Emit(RecoveryDecided{.rung = Rung::kResize,
                            .blamed = NodeId(),
                            .has_blamed = false,
                            .blamed_name = "",
                            .step = watch.step,
                            .saved_step = watch.saved_step,
                            .reason = "from " + std::to_string(state.world->seats.size()) + " to " +
                                      Counted(kept.size(), "node") + ": " + why},
            {state.size.seq});
  return true;
}

}  // namespace paceline::core
