#include "paceline/core/next_world.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/core/budget.h"
#include "paceline/core/checkpoint/storage_wait.h"
#include "paceline/core/detect/detectors.h"
#include "paceline/core/finish.h"
#include "paceline/core/recover/ladder.h"
#include "paceline/core/world/membership.h"
#include "paceline/core/world/node_check.h"
#include "paceline/core/world/pair_tests.h"
#include "paceline/core/world/ranks.h"

namespace paceline::core {

namespace {

using Status = NodeState::Status;

// A survivor's broken connection may be reported before the failure that broke it. A job ends for
// the cause, so an end waits for it this long.
constexpr Duration kCauseWait = Duration::Seconds(1);

constexpr char kIsChecked[] = "is being checked";

// If a single node restarted itself and is single again, its next world takes the next number of
// the node's own block. Only this node uses these numbers, whether the agent or the master takes
// one first. If the order is lost and the agent restarts itself meanwhile, both name the same
// world, and the agent starts it once. Two conditions hold. The node was never told a number above
// the world (an order to hold no ranks names the whole block): true if this master's last order to
// it was to run, because orders follow durable records. And the node used no further number by
// itself while there was no world. All other worlds are numbered above the block, in the term of
// this master.
Generation NextGeneration(Turn& turn, const std::vector<Candidate>& seats) {
  const JobState& state = turn.state();
  const auto& last = state.last_world.seats;
  const bool alone =
      last.size() == 1 && seats.size() == 1 && last.front().node == seats.front().node;
  const bool is_own_term = TermOf(state.last_world.generation) == state.term;
  if (!alone || !is_own_term) return NextInTerm(turn);
  const NodeLink& link = turn.Link(seats.front().node);
  Generation newest = link.carried_out;
  for (const auto& [local, rank] : link.ranks) newest = std::max(newest, rank.generation);
  const bool counts_on =
      link.told.kind == Assignment::Kind::kRun && newest <= state.last_world.generation;
  if (!counts_on) return NextInTerm(turn);
  MARK("lone world counts on");
  return state.last_world.generation.next();
}

// False: rank 0's node has not offered a store port yet.
bool Form(Turn& turn, const RungAnswer& answer, std::string reason) {
  const JobState& state = turn.state();
  NodeLink& first = turn.Link(answer.seats.front().node);
  if (first.store_port == 0) {
    MARK("waits for a store port");
    turn.watch().pending =
        "waits for " + answer.seats.front().name + " to offer a port for the training store";
    return false;
  }
  World world;
  world.generation = NextGeneration(turn, answer.seats);
  world.seats = NumberSeats(answer.seats);
  world.store = {state.Find(answer.seats.front().node)->address, first.store_port};
  world.restart_count = state.AnyWorldYet() ? state.restart_count + 1 : 0;
  first.used_port = first.store_port;
  first.used_in = world.generation;
  first.store_port = 0;
  WorldFormed formed{.world = std::move(world),
                     .solo_last = Generation(),
                     .fresh_starter = answer.fresh_node.has_value(),
                     .fresh_node = answer.fresh_node.value_or(NodeId()),
                     .reason = std::move(reason)};
  if (formed.world.seats.size() == 1) {
    formed.solo_last =
        Generation(formed.world.generation.value() + state.spec.budgets.solo_generations);
  }
  std::vector<RecordSeq> causes{state.decision.seq};
  if (!state.AnyWorldYet()) {
    for (const Seat& seat : formed.world.seats) {
      if (causes.size() >= kIncidentCausesMax) break;
      causes.push_back(state.Find(seat.node)->cause);
    }
  }
  turn.Emit(std::move(formed), std::move(causes));
  ResetWorldWatch(turn);
  turn.watch().pending.clear();
  return true;
}

bool FormFirstWorld(Turn& turn) {
  const JobState& state = turn.state();
  Watch& watch = turn.watch();
  const WorldBounds bounds = state.NextBounds();
  const size_t ready = watch.connected_count - watch.checking.size();
  if (ready < bounds.nodes_min) {
    watch.minimum_since = Instant::Max();
    watch.pending = "waits for nodes: " + std::to_string(ready) + " of at least " +
                    std::to_string(bounds.nodes_min) + " are here" + ChecksText(turn);
    return false;
  }
  watch.minimum_since = std::min(watch.minimum_since, turn.now());
  const Instant due = watch.minimum_since + state.spec.timers.join_window;
  // A world without a node whose checks run would soon be formed anew, to grow.
  const bool may_wait = turn.now() < due || !watch.checking.empty();
  if (ready < bounds.nodes_max && may_wait) {
    if (turn.now() < due) watch.settle_at = due;
    watch.pending = "waits for more nodes, up to " + std::to_string(bounds.nodes_max) + ": " +
                    std::to_string(ready) + " are here" + ChecksText(turn);
    return false;
  }
  if (CompareHosts(turn)) return true;
  if (PairsAreOpen(turn)) {
    watch.pending = "tests the links between its nodes";
    return false;
  }
  RungAnswer answer;
  answer.seats = PlanSeats({}, Candidates(turn), bounds);
  if (answer.seats.empty()) return false;
  const size_t here = answer.seats.size();
  return Form(turn, answer,
              here == bounds.nodes_max
                  ? (here == 1 ? "its only node is here"
                               : "all " + std::to_string(here) + " nodes are here")
                  : std::to_string(here) + " of up to " + std::to_string(bounds.nodes_max) +
                        " nodes came within the join window");
}

std::string Names(const std::vector<Candidate>& nodes) {
  constexpr size_t kNamedMax = 8;
  std::string text;
  for (size_t i = 0; i < nodes.size() && i < kNamedMax; ++i) {
    text += (i == 0 ? "" : ", ") + nodes[i].name;
  }
  return nodes.size() > kNamedMax ? text + ", …" : text;
}

// A seated node whose state is undecided: a world with it, or without it, could be wrong.
const NodeState* OpenFate(Turn& turn, std::string* reason) {
  for (const Seat& seat : turn.state().last_world.seats) {
    const NodeState* node = turn.state().Find(seat.node);
    if (node->status != Status::kSeated) continue;
    const Verdict verdict = turn.Judge(*node);
    const bool is_checked = turn.watch().checking.contains(node->id);
    if (verdict.kind == Verdict::Kind::kHealthy && !is_checked) continue;
    *reason = verdict.kind == Verdict::Kind::kHealthy ? kIsChecked : verdict.reason;
    return node;
  }
  return nullptr;
}

LadderView ViewWith(Turn& turn, std::vector<Candidate> candidates) {
  const JobState& state = turn.state();
  LadderView view{.state = state,
                  .now = turn.now(),
                  .candidates = std::move(candidates),
                  .missing = {},
                  .budget = JudgeBudget(state),
                  .blamed_failures = 0,
                  .room = &turn.watch().room};
  std::set<NodeId> here;
  for (const Candidate& candidate : view.candidates) here.insert(candidate.node);
  for (const Seat& seat : state.last_world.seats) {
    if (!here.contains(seat.node)) view.missing.push_back(seat.node);
  }
  if (!view.budget.exhausted && state.incident.failure.value() != 0) {
    view.budget = JudgeRepeated(state, !view.PlanWithoutBlamed().empty());
  }
  if (state.incident.has_blamed) {
    view.blamed_failures = state.Find(state.incident.blamed)->failures_without_progress;
  }
  return view;
}

LadderView View(Turn& turn) { return ViewWith(turn, Candidates(turn)); }

Candidate CandidateOf(const NodeState& node) {
  return {.node = node.id,
          .name = node.name,
          .slots = node.slots,
          .troubles = node.failures_without_progress + node.departures};
}

// Returns a spare that is suspected and not yet lost, or whose checks run, if the ladder would take
// another rung with it. A new master knows its spares from the journal, and counts each as
// suspected until it has connected again; without this wait the job would shrink although a spare
// is there. The wait ends when the spare connects, or when the detectors declare it lost.
const NodeState* OpenSpare(Turn& turn, std::string* reason) {
  std::vector<Candidate> hoped = Candidates(turn);
  const NodeState* open = nullptr;
  for (const auto& [id, node] : turn.state().nodes) {
    if (node.status != Status::kSpare) continue;
    const Verdict verdict = turn.Judge(node);
    const bool is_suspect = verdict.kind == Verdict::Kind::kSuspect;
    if (!is_suspect && !turn.watch().checking.contains(id)) continue;
    hoped.push_back(CandidateOf(node));
    if (open == nullptr) {
      open = &node;
      *reason = is_suspect ? verdict.reason : kIsChecked;
    }
  }
  if (open == nullptr) return nullptr;
  const Rung rung = ClimbLadder(View(turn)).rung;
  if (ClimbLadder(ViewWith(turn, std::move(hoped))).rung == rung) return nullptr;
  MARK("a decision waits for a spare");
  return open;
}

bool SameDecision(const PendingDecision& decision, const LadderAnswer& climbed) {
  if (!decision.pending) return false;
  // A growth or a move was decided before its world ended, so no node is missing.
  if (decision.rung == Rung::kNone || decision.rung == Rung::kMoveLayers) {
    return climbed.rung == Rung::kRestartProcess;
  }
  return decision.rung == climbed.rung &&
         decision.has_blamed == climbed.answer.blamed.has_value() &&
         (!decision.has_blamed || decision.blamed == *climbed.answer.blamed);
}

void Decide(Turn& turn, const LadderAnswer& climbed) {
  const JobState& state = turn.state();
  if (SameDecision(state.decision, climbed)) return;
  std::vector<RecordSeq> causes = state.incident.causes;
  causes.push_back(state.decision.seq);
  if (climbed.answer.seats.empty() && causes.empty()) causes.push_back(state.world_seq);
  RecoveryDecided decided;
  decided.rung = climbed.rung;
  decided.has_blamed = climbed.answer.blamed.has_value();
  decided.blamed = climbed.answer.blamed.value_or(NodeId());
  decided.blamed_name = decided.has_blamed ? state.NameOf(decided.blamed) : "";
  decided.step = turn.watch().step;
  decided.saved_step = turn.watch().saved_step;
  decided.reason = climbed.answer.reason;
  turn.Emit(std::move(decided), std::move(causes));
}

// True: wait, because something may still change the right decision.
bool Hold(Turn& turn, const LadderView& view) {
  Watch& watch = turn.watch();
  const JobState& state = turn.state();
  if (view.budget.exhausted) {
    const Instant due = state.phase_since + kCauseWait;
    if (!state.incident.cascade || turn.now() >= due) return false;
    MARK("a job is not ended for a consequence");
    watch.settle_at = std::min(watch.settle_at, due);
    watch.pending = "waits for the cause of a broken connection";
    return true;
  }
  if (state.incident.failure.value() == 0) return false;
  const Instant due = state.world_since + RestartDelay(state);
  if (turn.now() >= due) return false;
  watch.settle_at = std::min(watch.settle_at, due);
  watch.pending = "pauses before the next attempt";
  return true;
}

// A rank failed because its close() failed: storage was tried for long enough, and no newer step
// was saved. Another world would fail in the same way.
bool EndWithoutStorage(Turn& turn) {
  const JobState& state = turn.state();
  const auto& left = state.checkpoints.not_stored;
  const bool is_cause = left.has_value() && left->is_final && state.incident.pending &&
                        state.incident.failure.value() != 0 &&
                        state.incident.generation == left->generation;
  if (!is_cause) return false;
  MARK("a failed close ends the job");
  turn.Emit(StopDecided{.exit_code = kExitNotStored,
                        .grace = Duration(),
                        .reason = "its ranks were done and only waited for storage"},
            state.incident.causes);
  return true;
}

// Why this node is taken out: its ranks could not be started, or had the same failure before their
// first step again and again, and no other node's had. Empty: it is not.
std::string WhyBroken(const JobState& state, const NodeState& node) {
  const BudgetState& budget = state.budget;
  const std::string times = std::to_string(budget.same_failure_count) + " times";
  if (budget.last_not_started) {
    return "could not start its worker processes " + times +
           budget.last_headline.substr(kNotStartedText.size()) + " (see logs/" + node.name +
           "/starter.log)";
  }
  if (!HasFailedAlike(state) || !budget.last_before_step) return "";
  if (NamesEarlyEnd(budget.last_headline)) return "";  // a rank of another node may be the cause
  return "failed " + times + " before its first step: " + budget.last_headline;
}

// Takes out the one node whose ranks get to no step if the others can go on without it: a host on
// which a module or a mount is missing, or that can start no process. So a broken host does not end
// the job, and is not tried without end. If the script is to blame, another node has the same
// failure next, and the job ends.
bool TakeOutBroken(Turn& turn) {
  const JobState& state = turn.state();
  const BudgetState& budget = state.budget;
  // Ports that are taken exhaust the budget without a charge: the last charged failure is an older
  // one then.
  const bool is_charged = state.incident.failure.value() != 0;
  const bool is_one = budget.same_failure_nodes.size() == 1 && state.last_world.seats.size() > 1;
  if (!is_charged || !is_one || state.spec.max_restarts) return false;
  const NodeState& node = *state.Find(state.incident.blamed);
  std::string why = WhyBroken(state, node);
  const LadderView view = View(turn);
  if (why.empty() || !view.budget.exhausted || view.PlanWithoutBlamed().empty()) return false;
  MARK("a node whose ranks get to no step is taken out");
  EvictNode(turn, node.id, std::move(why), state.incident.causes);
  return true;
}

bool FormNextWorld(Turn& turn) {
  Watch& watch = turn.watch();
  const JobState& state = turn.state();
  if (EndWithoutStorage(turn)) return true;
  switch (TryToStoreOnly(turn)) {
    case StoreOnly::kNo: break;
    case StoreOnly::kWaits: return false;
    case StoreOnly::kEnds: return true;
  }
  std::string fate;
  const NodeState* node = OpenFate(turn, &fate);
  if (node == nullptr) node = OpenSpare(turn, &fate);
  if (node != nullptr) {
    watch.pending = "waits to hear from " + node->name + ", which " + fate;
    // A report that settles it does not trigger a check by itself, so check by time.
    watch.settle_at = std::min(watch.settle_at, turn.now() + HeartbeatInterval(state.spec));
    return false;
  }
  if (TakeOutBroken(turn)) return true;
  const LadderView view = View(turn);
  if (Hold(turn, view)) return false;
  const LadderAnswer climbed = ClimbLadder(view);
  if (climbed.answer.not_before > turn.now()) {
    watch.settle_at = std::min(watch.settle_at, climbed.answer.not_before);
    watch.pending = "waits for a node before it shrinks";
    return false;
  }
  const RecordSeq before = state.last_seq;
  Decide(turn, climbed);
  if (climbed.rung == Rung::kStop) {
    turn.Emit(StopDecided{.exit_code = 1, .grace = Duration(), .reason = climbed.answer.reason},
              {state.decision.seq});
    return true;
  }
  if (climbed.rung == Rung::kWait) {
    watch.pending = climbed.answer.waiting_for;
    if (state.waiting_for != climbed.answer.waiting_for) {
      turn.Emit(WaitBegan{climbed.answer.waiting_for}, {state.decision.seq});
    }
    return false;
  }
  const bool formed = Form(turn, climbed.answer, Names(climbed.answer.seats));
  return formed || state.last_seq != before;
}

std::string WhyItEnds(const JobState& state) {
  if (state.incident.pending) return "one of its ranks or nodes is gone";
  if (state.decision.rung == Rung::kMoveLayers) return "its layers move";
  if (state.decision.rung == Rung::kReplaceSlow) return "a spare takes the ranks of a slow node";
  return state.decision.rung == Rung::kResize ? "it shrinks, as requested" : "it grows";
}

// The work since the newest checkpoint that a rank wrote or told of in this world. If the ranks
// tell steps of the training and no checkpoint, only the next world can show what it repeats.
void NoteLostWork(const JobState& state, const Watch& watch, Instant now, WorldEnded* ended) {
  if (state.phase != Phase::kRunning) return;
  const bool has_file = watch.saved_files > 0;
  const bool has_saved = watch.saved_step >= 0 && watch.saved_at >= state.world_since;
  if (watch.step >= 0 && !has_file && !has_saved) return;
  int64_t kept = 0;
  Instant since = state.phase_since;
  if (has_file) {
    kept = watch.filed_step_count;
    since = std::max(since, watch.filed_at);
  }
  if (has_saved) {
    kept = std::max(kept, watch.saved_step_count);
    since = std::max(since, watch.saved_at);
  }
  ended->lost_steps = watch.step_count - kept;
  ended->lost_work = now - since;
}

}  // namespace

Generation NextInTerm(Turn& turn) {
  const JobState& state = turn.state();
  if (state.term == 0) return state.generation.next();
  uint64_t number = WorldNumber(state.generation);
  for (const auto& [id, link] : turn.links()) {
    number = std::max(number, WorldNumber(link.carried_out));
    for (const auto& [local, rank] : link.ranks) {
      number = std::max(number, WorldNumber(rank.generation));
    }
  }
  return GenerationOf(state.term, number + 1);
}

bool EndDoomedWorld(Turn& turn) {
  const JobState& state = turn.state();
  const bool doomed = state.incident.pending || state.decision.pending;
  if (!state.world || !doomed) return false;
  std::vector<RecordSeq> causes = state.incident.causes;
  causes.push_back(state.decision.seq);
  WorldEnded ended{.generation = state.world->generation,
                   .step = turn.watch().step,
                   .reason = WhyItEnds(state),
                   .step_count = turn.watch().step_count,
                   .reached = std::max(int64_t{0}, turn.watch().world_step)};
  NoteLostWork(state, turn.watch(), turn.now(), &ended);
  if (state.phase == Phase::kRunning && turn.watch().step_count > 0) {
    ended.still_for = turn.now() - std::max(state.phase_since, turn.watch().stepped_at);
  }
  turn.Emit(std::move(ended), std::move(causes));
  return true;
}

bool FormWorld(Turn& turn) {
  Watch& watch = turn.watch();
  if (!watch.dirty && turn.now() < watch.settle_at) return false;
  watch.dirty = false;
  watch.settle_at = Instant::Max();
  return turn.state().AnyWorldYet() ? FormNextWorld(turn) : FormFirstWorld(turn);
}

std::vector<Candidate> Candidates(Turn& turn) {
  std::vector<Candidate> candidates;
  for (const auto& [id, node] : turn.state().nodes) {
    if (node.status != Status::kSpare && node.status != Status::kSeated) continue;
    const NodeLink& link = turn.Link(id);
    if (!link.connection || turn.watch().checking.contains(id)) continue;
    const Verdict verdict = turn.Judge(node);
    if (verdict.kind == Verdict::Kind::kSuspect || verdict.kind == Verdict::Kind::kLost) continue;
    candidates.push_back(CandidateOf(node));
  }
  return candidates;
}

}  // namespace paceline::core
