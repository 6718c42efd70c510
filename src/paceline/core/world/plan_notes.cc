#include "paceline/core/world/plan_notes.h"

#include <optional>
#include <string>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/plan/json.h"

namespace paceline::core {

namespace {

// Reads the model that a note describes. The error says why it cannot be read, as one sentence.
Result<ModelDescribed> ModelOf(const PlanNote& note, uint32_t world_size) {
  const auto model = plan::ReadSummary(note.summary);
  if (!model.ok()) return model.failure();
  const auto wishes = plan::ReadWishes(note.wishes);
  if (!wishes.ok()) return wishes.failure();
  const auto cluster = plan::ReadCluster(note.cluster);
  if (!cluster.ok()) return cluster.failure();
  uint64_t devices = 0;
  for (const DeviceRun& run : cluster->runs) devices += run.count;
  if (devices != world_size) {
    return Failure{.kind = FailureKind::kInvalid,
                   .message = "the cluster has another number of devices than the world"};
  }
  ModelDescribed described{.name = model->name,
                           .global_batch = wishes->global_batch,
                           .summary = note.summary,
                           .wishes = note.wishes};
  for (const LayerRow& row : model->rows) described.parameters += row.parameters * row.count;
  return described;
}

// Whether the node has rank 0 of the world that the note is about, and the world trains.
bool IsOfThisWorld(const JobState& state, const PlanReported& event) {
  const bool trains = state.phase == Phase::kStarting || state.phase == Phase::kRunning;
  return trains && state.IsSeated(event.node) && event.note.generation == state.world->generation &&
         state.SeatOf(*state.Find(event.node)).first_rank == 0;
}

bool IsKnown(const JobState& state, const PlanNote& note) {
  return state.plan.has_value() && state.plan->generation == note.generation &&
         state.plan->words == note.words && state.plan->because == note.because &&
         state.plan->plan == note.plan;
}

// The ranks have stored a checkpoint with that plan, and wait for the world that carries it out.
// Agents repeat their newest note. A repeated one has the generation of the ended world, so it
// moves nothing again.
void MoveLayers(Turn& turn, const PlanNote& note) {
  const JobState& state = turn.state();
  if (state.incident.pending || state.decision.pending) return;
  MARK("layers move");
  const bool is_other = state.plan.has_value() && state.plan->words != note.words;
  const std::string from = is_other ? " instead of " + state.plan->words : " with other layers";
  turn.Emit(RecoveryDecided{.rung = Rung::kMoveLayers,
                            .blamed = NodeId(),
                            .has_blamed = false,
                            .blamed_name = "",
                            .step = turn.watch().step,
                            .saved_step = turn.watch().saved_step,
                            .reason = note.words + from + ", as " + note.because},
            {state.world_seq});
}

}  // namespace

void OnPlanReported(Turn& turn, const PlanReported& event) {
  const JobState& state = turn.state();
  const PlanNote& note = event.note;
  const auto link = turn.links().find(event.node);
  if (link == turn.links().end() || link->second.connection != event.connection) return;
  if (!IsOfThisWorld(state, event)) {
    MARK("plan of another world");
    return;
  }
  if (note.moves) return MoveLayers(turn, note);
  if (IsKnown(state, note)) return;  // an agent repeats it for each master
  const auto model = ModelOf(note, state.world->world_size());
  if (!model.ok()) {
    turn.Say(Note::Level::kWarning,
             "the ranks' plan cannot be recorded: " + model.failure().message);
    return;
  }
  if (state.model != *model) turn.Emit(*model, {state.world_seq});
  turn.Emit(ParallelPlanChosen{.generation = note.generation,
                               .words = note.words,
                               .before = state.plan.has_value() ? state.plan->words : "",
                               .because = note.because,
                               .step = note.step,
                               .plan = note.plan,
                               .cluster = note.cluster},
            {state.world_seq});
}

}  // namespace paceline::core
