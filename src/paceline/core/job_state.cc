#include "paceline/core/job_state.h"

#include <algorithm>

#include "paceline/base/check.h"
#include "paceline/core/budget.h"
#include "paceline/core/memory_told.h"
#include "paceline/core/succession/memo.h"
#include "paceline/core/tasks/task_budget.h"
#include "paceline/core/tasks/task_scale.h"
#include "paceline/core/world/drill.h"
#include "paceline/core/world/link_notes.h"
#include "paceline/core/world/node_check.h"
#include "paceline/core/world/room.h"

namespace paceline::core {

namespace {

void NoteIncident(JobState& state, RecordSeq seq) {
  Incident& incident = state.incident;
  if (!incident.pending) {
    incident = Incident{};
    incident.pending = true;
    incident.generation = state.last_world.generation;
  }
  if (incident.causes.size() < kIncidentCausesMax) incident.causes.push_back(seq);
}

// The loss of a node matters to the world if it has a seat in the current one or in the one being
// replaced.
bool HoldsSeat(const JobState& state, NodeId node) {
  const NodeState* known = state.Find(node);
  return known != nullptr && known->status == NodeState::Status::kSeated;
}

void SetStatus(JobState& state, const Record& record, NodeId node, NodeState::Status status,
               const std::string& reason) {
  NodeState& known = state.nodes[node];
  known.id = node;  // a damaged journal may name a node that never joined
  known.status = status;
  known.reason = reason;
  known.since = record.at;
  known.cause = record.seq;
}

void SetPhase(JobState& state, const Record& record, Phase phase) {
  state.phase = phase;
  state.phase_since = record.at;
}

// The node's present incarnation is outdated. `counts`: the replacement is one of the few without
// progress.
void WishAnew(JobState& state, const std::string& name, bool counts = true) {
  const std::optional<uint32_t> index = IndexOfNode(name);
  if (!index.has_value() || !state.spec.has_wish()) return;
  WishedNode& wished = state.wished[*index];
  ++wished.incarnation;
  if (counts) ++wished.replaced;
}

struct StateFolder {
  const Record& record;
  JobState& state;

  void operator()(const JobCreated& fact) {
    state.spec = fact.spec;
    state.created_at = record.at;
    const TaskSpec& tasks = fact.spec.tasks;
    if (tasks.has_tables() && tasks.servers > 0) {
      state.routing = TableRouting(tasks.servers);
      state.moves_seq = record.seq;
    }
    SetPhase(state, record, Phase::kWaiting);
  }

  void operator()(const MasterTookOver& fact) {
    state.master_incarnation = fact.incarnation;
    if (fact.term > state.term) state.before_term = state.generation;
    state.term = std::max(state.term, fact.term);
    if (fact.history == History::kNone) state.has_lost_past = true;
    // From now on every order is above whatever a master of an older term may still say.
    const Generation in_term = GenerationOf(state.term, WorldNumber(state.generation));
    state.generation = std::max(state.generation, in_term);
  }

  void operator()(const PastRemembered& fact) { Apply(fact.memo, &state); }

  void operator()(const NodeJoined& fact) {
    NodeState& node = state.nodes[fact.node];
    node.id = fact.node;
    node.name = fact.name;
    if (node.departure.has_value()) {
      node.departure->is_back = true;
      node.departure->new_incarnation = state.spec.has_wish() ? fact.incarnation : 0;
    }
    node.boot_id = fact.boot_id;
    node.address = fact.address;
    node.slots = fact.slots;
    node.finished = false;
    node.notice.reset();
    node.check.reset();
    node.check_round = 0;
    node.is_slow_once = false;
    ForgetLinks(fact.name, &state);
    // A new machine with an old name.
    if (node.status == NodeState::Status::kEvicted) node.failures_without_progress = 0;
    if (fact.incarnation > 0 && state.spec.has_wish()) NoteIncarnation(fact);
    state.by_name[fact.name] = fact.node;
    SetStatus(state, record, fact.node, NodeState::Status::kSpare,
              fact.returned ? "came back" : "joined");
  }

  // If its journal is older than the nodes, a master continues with their numbers.
  void NoteIncarnation(const NodeJoined& fact) {
    const std::optional<uint32_t> index = IndexOfNode(fact.name);
    if (!index.has_value()) return;
    uint32_t& known = state.wished[*index].incarnation;
    known = std::max(known, fact.incarnation);
  }

  void operator()(const NodeLost& fact) {
    const bool seated = HoldsSeat(state, fact.node);
    SetStatus(state, record, fact.node, NodeState::Status::kLost, fact.reason);
    NodeState& node = state.nodes[fact.node];
    node.departure = Departure{.how = fact.reason, .old_address = node.address};
    Replace(node, fact.name);
    node.finished = seated && fact.finished;
    if (node.finished) ++state.finished_count;
    if (fact.explains) LiftCharge(state);
    if (seated && !fact.finished) NoteIncident(state, record.seq);
  }

  void operator()(const NodeNoticed& fact) {
    NodeState& node = state.nodes[fact.node];
    if (!node.notice.has_value()) WishAnew(state, fact.name, /*counts=*/false);
    node.notice = LeaveNotice{.at = record.at,
                              .leave_by = fact.leave_by,
                              .saved_step = fact.saved_step,
                              .reason = fact.reason,
                              .seq = record.seq};
  }

  void operator()(const NodeLeft& fact) {
    Depart(fact.node, NodeState::Status::kLeft, fact.reason);
    Replace(state.nodes[fact.node], fact.name);
  }

  void operator()(const NodeChecked& fact) { NoteCheck(fact, &state); }
  void operator()(const NodeCheckOrdered& fact) { NoteCheckOrder(fact, &state); }
  void operator()(const PairsJudged& fact) { NoteLinks(fact, &state); }
  void operator()(const DrillStruck& fact) { BeginDrill(record, fact, &state); }
  void operator()(const MemoryShort& fact) { NoteMemory(record, fact, &state); }

  void operator()(const NodeEvicted& fact) {
    Depart(fact.node, NodeState::Status::kEvicted, fact.reason);
    ForgetFailures(state);
    Replace(state.nodes[fact.node], fact.name);
    const auto& known = state.excluded;
    const bool is_new = !fact.host.empty() && std::ranges::find(known, fact.host) == known.end();
    if (is_new && state.excluded.size() < Memo::kHostsMax) state.excluded.push_back(fact.host);
  }

  void Depart(NodeId node, NodeState::Status status, const std::string& reason) {
    const bool seated = HoldsSeat(state, node);
    SetStatus(state, record, node, status, reason);
    NodeState& known = state.nodes[node];
    known.departure = Departure{.how = reason, .old_address = known.address};
    if (seated) NoteIncident(state, record.seq);
  }

  // A node under notice goes through no fault of its own, and was replaced when the notice came.
  void Replace(NodeState& node, const std::string& name) {
    if (node.notice.has_value()) return;
    ++node.departures;
    WishAnew(state, name);
  }

  void operator()(const RankFailed& fact) {
    if (IsTask(fact.rank)) return FailTask(record, fact, &state);
    if (fact.explains) {
      LiftCharge(state);
      Charge(state, record.at, fact);
      Incident& incident = state.incident.pending ? state.incident : state.last_incident;
      incident.cascade = false;
      incident.failure = record.seq;
      incident.blamed = fact.node;
      incident.has_blamed = true;
      return;
    }
    if (state.world && fact.generation == state.world->generation && !state.incident.pending) {
      NoteIncident(state, record.seq);
      state.incident.has_blamed = fact.charged;
      state.incident.blamed = fact.node;
      if (fact.charged) {
        Charge(state, record.at, fact);
        state.incident.failure = record.seq;
        state.incident.cascade = LooksLikeCascade(fact.cause);
      }
      if (fact.cause.port_taken) ++state.port_taken_count;
    } else {
      AddWitness(state, fact);
    }
  }

  void operator()(const RecoveryDecided& fact) {
    state.decision = {.pending = true,
                      .rung = fact.rung,
                      .has_blamed = fact.has_blamed,
                      .blamed = fact.blamed,
                      .seq = record.seq};
    state.step_max = std::max(state.step_max, fact.step);
    if (fact.rung != Rung::kReplaceSlow) return;
    state.nodes[fact.blamed].moved_at = record.at;
    state.moved_node = fact.blamed;
  }

  // Clears the slow ranks and the bad loss that were recorded for the last world.
  void ForgetPace() const {
    state.slow.clear();
    state.bad_loss_step = -1;
  }

  void operator()(const WorldFormed& fact) {
    if (state.AnyWorldYet()) ++state.restart_count;
    state.world = fact.world;
    state.last_world = fact.world;
    state.world_seq = record.seq;
    state.world_since = record.at;
    state.solo_last = fact.solo_last;
    state.generation = std::max({state.generation, fact.world.generation, fact.solo_last});
    state.has_fresh_node = fact.fresh_starter;
    state.fresh_node = fact.fresh_node;
    if (fact.fresh_starter) state.nodes[fact.fresh_node].fresh_image_tried = true;
    for (auto& [id, node] : state.nodes) {
      node.finished = false;
      node.departure.reset();
      if (node.status == NodeState::Status::kSeated) node.status = NodeState::Status::kSpare;
    }
    for (uint32_t i = 0; i < fact.world.seats.size(); ++i) {
      NodeState& node = state.nodes[fact.world.seats[i].node];
      node.id = fact.world.seats[i].node;
      node.status = NodeState::Status::kSeated;
      node.seat = i;
    }
    if (state.moved_node && HoldsSeat(state, *state.moved_node)) state.moved_node.reset();
    state.drill.reset();
    state.last_incident = state.incident;
    state.incident = Incident{};
    state.decision = PendingDecision{};
    state.growth = PlannedGrowth{};
    // Nodes that are replaced later join as without the hurry.
    if (fact.world.seats.size() == state.size.nodes) state.size.at_once = false;
    state.progress_in_world = state.evidence_in_world = false;
    state.finished_count = 0;
    state.only_stores = false;
    state.waiting_for.clear();
    ForgetPace();
    SetPhase(state, record, Phase::kStarting);
  }

  void operator()(const WorldRunning& fact) {
    if (!state.world) return;  // only in a damaged journal: a training job has a world
    if (state.world->restart_count > 0 && fact.began_at > 0) state.has_resumed = true;
    state.port_taken_count = 0;
    state.last_incident = Incident{};
    SetPhase(state, record, Phase::kRunning);
  }

  void operator()(const WorldEnded& fact) {
    state.world.reset();
    ForgetPace();
    state.hang = ToldHang{};
    state.solo_last = Generation();
    state.step_max = std::max(state.step_max, fact.step);
    SetPhase(state, record, Phase::kWaiting);
  }

  void operator()(const SoloRestarted& fact) {
    if (!state.world || fact.generation <= state.world->generation) return;
    const uint64_t restarts = fact.generation.value() - state.world->generation.value();
    state.world->generation = fact.generation;
    state.last_world = *state.world;
    state.world_since = record.at;
    state.generation = std::max(state.generation, fact.generation);
    state.restart_count += static_cast<uint32_t>(restarts);
    state.world->restart_count = state.restart_count;
    state.last_world.restart_count = state.restart_count;
    state.budget.charged_failures += static_cast<uint32_t>(restarts);
    state.progress_in_world = state.evidence_in_world = false;
    state.hang = ToldHang{};
    ForgetPace();
    SetPhase(state, record, Phase::kStarting);
  }

  void operator()(const ProgressMade& fact) {
    state.step_max = std::max(state.step_max, fact.step);
    const bool is_firm = fact.evidence.empty() || fact.is_lasting;
    (is_firm ? state.progress_in_world : state.evidence_in_world) = true;
    Refill(state, fact);
    RefillTasks(&state);
    for (auto& [index, wished] : state.wished) wished.replaced = 0;
  }

  void operator()(const AgentReturned& fact) {
    if (state.drill && state.drill->node == fact.node) state.drill.reset();
  }

  void operator()(const GrowthPlanned& fact) {
    if (state.growth.pending) return;
    state.growth = {
        .pending = true, .saved_step = fact.saved_step, .at = record.at, .seq = record.seq};
  }

  void operator()(const SizeChosen& fact) {
    state.size = {.nodes = fact.nodes,
                  .saved_step = fact.saved_step,
                  .at_once = fact.at_once,
                  .is_measured = fact.is_measured,
                  .commits = state.checkpoints.commits,
                  .at = record.at,
                  .seq = record.seq};
    state.growth = PlannedGrowth{};  // it waits for a checkpoint after the request
  }

  void operator()(const WaitBegan& fact) { state.waiting_for = fact.reason; }

  void operator()(const StopDecided& fact) {
    state.hang = ToldHang{};
    state.only_stores = false;
    state.stop_grace = fact.grace;
    state.stop_signal = fact.signal;
    state.is_stop_asked = fact.is_asked;
    state.exit_code = fact.exit_code;
    state.final_reason = fact.reason;
    SetPhase(state, record, Phase::kStopping);
  }

  void operator()(const RestoreDecided& fact) {
    Apply(CheckpointFact(fact), record.at, &state.checkpoints);
  }
  void operator()(const CheckpointCommitted& fact) {
    Apply(CheckpointFact(fact), record.at, &state.checkpoints);
  }
  void operator()(const CheckpointDamaged& fact) {
    Apply(CheckpointFact(fact), record.at, &state.checkpoints);
  }

  void operator()(const CheckpointNotStored& fact) {
    Apply(CheckpointFact(fact), record.at, &state.checkpoints);
  }

  void operator()(const HangJudged& fact) {
    if (fact.acts || !fact.end_follows || state.hang.pending) return;
    state.hang = {.pending = true, .since = record.at - fact.quiet_for, .seq = record.seq};
  }
  void operator()(const HangEnded&) { state.hang = ToldHang{}; }
  void operator()(const RankSlow& fact) { state.slow.push_back(fact.finding); }
  void operator()(const RankNoLongerSlow& fact) {
    std::erase_if(state.slow, [&](const auto& told) { return told.ranks == fact.finding.ranks; });
  }
  void operator()(const ModelDescribed& fact) { state.model = fact; }
  void operator()(const ParallelPlanChosen& fact) {
    state.plan = fact;
    NoteDevices(fact, &state);
  }
  void operator()(const TimeAccounted&) {}  // only the ledger of goodput reads it
  void operator()(const LossWentBad& fact) { state.bad_loss_step = fact.bad.step; }
  void operator()(const WishChanged& fact) {
    WishAnew(state, fact.name);
    const std::optional<uint32_t> index = IndexOfNode(fact.name);
    if (!index.has_value()) return;  // only in a damaged journal
    uint32_t& known = state.wished[*index].incarnation;
    known = std::max(known, fact.incarnation);
  }

  void operator()(const TasksPlaced& fact) {
    PlaceTasks(record, fact, &state);
    state.decision = PendingDecision{};
    SetPhase(state, record, fact.tasks.empty() ? Phase::kWaiting : Phase::kTasks);
  }

  void operator()(const TasksScaled& fact) { ScaleTasks(record, fact, &state); }
  void operator()(const TablesMoved& fact) { MoveTables(record, fact, &state); }

  // The job continues as after a world that ended, with the same seats. If it had failed, the user
  // has repaired the cause, so failures are counted from zero.
  void operator()(const JobResumed& fact) {
    state.tasks.clear();
    state.only_stores = !fact.anew;
    if (fact.anew) {
      state.budget = BudgetState{};
      state.budget_before = BudgetState{};
      state.port_taken_count = 0;
      for (auto& [id, node] : state.nodes) {
        node.failures_without_progress = 0;
        node.fresh_image_tried = false;
        if (node.status == NodeState::Status::kEvicted) node.status = NodeState::Status::kLost;
      }
    }
    if (state.checkpoints.not_stored.has_value()) state.checkpoints.not_stored->is_final = false;
    state.exit_code = 0;
    state.final_reason.clear();
    state.final_step = 0;
    state.is_stop_asked = false;
    state.stop_grace = Duration();
    state.stop_signal = 0;
    state.incident = Incident{};
    state.decision = PendingDecision{};
    state.finished_count = 0;
    state.waiting_for.clear();
    SetPhase(state, record, Phase::kWaiting);
  }

  void operator()(const JobFinished& fact) {
    state.exit_code = fact.exit_code;
    state.final_reason = fact.reason;
    state.final_step = fact.step;
    // If no step of the training is known, `fact.step` counts the steps of the last world.
    const bool is_of_training = fact.reached > 0 || state.step_max >= 0;
    if (is_of_training) state.step_max = std::max(state.step_max, fact.step);
    state.world.reset();
    ForgetPace();
    SetPhase(state, record, Phase::kFinished);
  }
};

}  // namespace

std::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kEmpty: return "empty";
    case Phase::kWaiting: return "waiting";
    case Phase::kStarting: return "starting";
    case Phase::kRunning:
    case Phase::kTasks: return "running";
    case Phase::kStopping: return "stopping";
    case Phase::kFinished: return "finished";
  }
  return "unknown";
}

std::string_view NodeStatusName(NodeState::Status status) {
  switch (status) {
    case NodeState::Status::kSpare: return "spare";
    case NodeState::Status::kSeated: return "seated";
    case NodeState::Status::kLost: return "lost";
    case NodeState::Status::kLeft: return "left";
    case NodeState::Status::kEvicted: return "evicted";
  }
  return "unknown";
}

const NodeState* JobState::Find(const std::string& name) const {
  const auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : Find(it->second);
}

uint32_t JobState::RanksFixed() const {
  const uint32_t fixed = checkpoints.ranks_fixed;
  // A world of another size does not tell which number would help.
  return fixed == last_world.world_size() ? fixed : 0;
}

WorldBounds JobState::NextBounds() const {
  if (RanksFixed() == 0) {
    // The master before, which remembered the size, may have had other limits.
    const uint32_t most =
        size.nodes == 0 ? spec.nodes_max : std::clamp(size.nodes, spec.nodes_min, spec.nodes_max);
    return {spec.nodes_min, most, spec.unit};
  }
  const auto nodes = static_cast<uint32_t>(last_world.seats.size());
  return {nodes, nodes, 1};
}

std::string JobState::NameOf(NodeId node) const {
  const NodeState* known = Find(node);
  return known == nullptr ? "node?" : known->name;
}

void Apply(const Record& record, JobState* state) {
  CHECK(record.seq == state->last_seq.next(), "records are dense and in order");
  state->last_seq = record.seq;
  state->last_record_at = record.at;
  std::visit(StateFolder{record, *state}, record.fact);
}

}  // namespace paceline::core
