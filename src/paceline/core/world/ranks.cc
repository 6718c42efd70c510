#include "paceline/core/world/ranks.h"

#include <algorithm>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/core/budget.h"
#include "paceline/core/memory_told.h"
#include "paceline/core/slow/slow.h"
#include "paceline/core/world/drill.h"
#include "paceline/core/world/memory.h"

namespace paceline::core {

namespace {

using State = RankReport::State;

// Failures of other nodes that are recorded as witnesses of the same bug.
constexpr size_t kWitnessesMax = kFailureNodesMax;

RankFailed Failure(const JobState& state, NodeId node, const RankReport& rank) {
  return {.node = node,
          .node_name = state.NameOf(node),
          .generation = rank.generation,
          .rank = rank.rank,
          .step = rank.step,
          .step_count = rank.step_count,
          .charged = !rank.exit.port_taken && !rank.exit.asked,
          .explains = false,
          .cause = rank.exit,
          .died_for = rank.ended_for};
}

// "rank 1 on n2 had ended with exit code 0 before": one whose script returned while its peers train
// on. Empty if there is none.
std::string EndedEarly(Turn& turn) {
  const World& world = *turn.state().world;
  for (const Seat& seat : world.seats) {
    for (const auto& [local, rank] : turn.Link(seat.node).ranks) {
      const bool is_early = rank.generation == world.generation && rank.state == State::kExited &&
                            rank.exit.is_success();
      if (!is_early) continue;
      return "rank " + ToString(rank.rank) + " on " + turn.state().NameOf(seat.node) + " " +
             std::string(kEndedEarlyText);
    }
  }
  return "";
}

Duration LongAttempt(const Watch& watch) {
  return std::max(kLongAttemptMin, watch.restart_took * kLongAttemptRestarts);
}

// Evidence beside steps that this attempt came further than the failed ones; empty: none.
std::string OtherEvidence(const JobState& state, const Watch& watch, Instant now) {
  if (watch.saved_files > 0) return "a rank finished a checkpoint";
  // Epochs may count their steps from 0. A branch begins where a step is saved after a higher one
  // of the same world.
  const std::optional<SavedStep> newest = watch.checkpoints.newest_in_memory();
  const bool began_anew = newest.has_value() && newest->branch > 0 &&
                          newest->generation == state.world->generation.value();
  if (began_anew) return "every rank saved steps of a further pass";
  if (state.phase != Phase::kRunning) return "";
  const Duration trained = now - state.phase_since;
  if (watch.step_count > 0 && trained >= LongAttempt(watch)) {
    return "it trained for " + ToString(trained) + ", much longer than a restart takes";
  }
  return "";
}

// False while a rank of the world is not there yet. Steps of the others are no progress: a node
// that cannot start its ranks would be tried for ever.
bool HasStarted(Turn& turn, uint32_t ended_seats) {
  const JobState& state = turn.state();
  if (state.phase == Phase::kRunning) return true;
  const uint32_t there = turn.watch().running_seats + state.finished_count + ended_seats;
  return there >= state.world->seats.size();
}

// `ended_seats`: nodes whose ranks ran and have ended since they were counted.
bool NoteProgress(Turn& turn, uint32_t ended_seats = 0) {
  const JobState& state = turn.state();
  const Watch& watch = turn.watch();
  if (!state.world || state.progress_in_world) return false;
  const bool failed = state.budget.failures_without_progress > 0;
  const bool first_try = state.world->restart_count == 0 && !failed;
  if (first_try || !HasStarted(turn, ended_seats)) return false;
  const auto emit = [&](int64_t step, std::string evidence, bool is_lasting = false) {
    turn.Emit(ProgressMade{.step = step,
                           .step_count = watch.step_count,
                           .evidence = std::move(evidence),
                           .is_lasting = is_lasting},
              {state.world_seq});
    return true;
  };
  if (watch.step > state.step_max) return emit(watch.step, "");
  if (!failed) return false;
  if (std::string work = LeasedWorkSinceFailure(watch); !work.empty()) {
    MARK("leased work counts as progress");
    return emit(watch.step, std::move(work), /*is_lasting=*/true);
  }
  const bool is_counted = watch.step < 0;  // only the attempt's own steps are known
  if (is_counted && watch.step_count > state.budget.step_count_max) return emit(-1, "");
  const bool is_quiet = is_counted && watch.step_count == 0 && state.phase == Phase::kRunning &&
                        turn.now() - state.phase_since >= kQuietProgress;
  if (is_quiet) return emit(-1, "");
  if (state.evidence_in_world) return false;
  std::string evidence = OtherEvidence(state, watch, turn.now());
  if (evidence.empty()) return false;
  MARK("a script that tells nothing makes progress");
  return emit(watch.step, std::move(evidence));
}

// A failure in a world that is being replaced, or just was. Only the first failure is charged. A
// later one is recorded if it explains the first, or shows that the node is not to blame.
void TakeLateFailure(Turn& turn, NodeId node, const RankReport& rank) {
  const JobState& state = turn.state();
  const Incident& incident = state.incident.pending ? state.incident : state.last_incident;
  if (rank.exit.asked || rank.exit.port_taken) return;
  if (incident.failure.value() == 0 || rank.generation != incident.generation) return;
  if (incident.blamed == node && !incident.cascade) return;
  RankFailed failure = Failure(state, node, rank);
  failure.charged = false;
  if (incident.cascade && !LooksLikeCascade(rank.exit) && !FailureFingerprint(rank.exit).empty()) {
    MARK("cascade explained");
    failure.explains = true;
    failure.cause.is_final = failure.cause.is_final || IsKilledAtMost(state, rank.exit);
    const RecordSeq seq = turn.Emit(std::move(failure), {incident.failure});
    RaiseAfterKill(turn, node, rank, seq);
    return;
  }
  const BudgetState& budget = state.budget;
  const bool known = std::find(budget.same_failure_nodes.begin(), budget.same_failure_nodes.end(),
                               node) != budget.same_failure_nodes.end();
  const std::string fingerprint = FailureFingerprint(rank.exit);
  const bool same = !fingerprint.empty() && fingerprint == budget.last_fingerprint;
  if (same && !known && budget.same_failure_nodes.size() < kWitnessesMax) {
    turn.Emit(std::move(failure), {incident.failure});
    return;
  }
  turn.Say(Note::Level::kInfo, "rank " + ToString(rank.rank) + " on " + state.NameOf(node) +
                                   " ended, too: " + FailureText(rank.exit));
}

void TakeFailure(Turn& turn, NodeId node, const RankReport& rank) {
  const Phase phase = turn.state().phase;
  if (phase != Phase::kStarting && phase != Phase::kRunning) return;
  if (turn.state().incident.pending) {
    TakeLateFailure(turn, node, rank);
    return;
  }
  const bool has_run = rank.exit.kind != ExitCause::Kind::kNotStarted;
  NoteProgress(turn, has_run && !turn.Link(node).running ? 1 : 0);
  turn.watch().leased_work_before = turn.watch().leased_work;
  RankFailed failure = Failure(turn.state(), node, rank);
  if (LooksLikeCascade(rank.exit)) {
    if (const std::string early = EndedEarly(turn); !early.empty()) {
      MARK("a rank ended before its peers");
      failure.cause.headline += "; " + early;
    }
  }
  const HangWatch& hang = turn.watch().hang;
  std::vector<RecordSeq> causes = {turn.state().world_seq,
                                   DrillBehind(turn.state(), node, rank.rank)};
  // Somebody ended the rank that was named for a hang.
  const bool is_named =
      std::find(hang.told_ranks.begin(), hang.told_ranks.end(), rank.rank) != hang.told_ranks.end();
  if (is_named && rank.exit.kind == ExitCause::Kind::kSignaled) causes.push_back(hang.told_seq);
  failure.cause.is_final = failure.cause.is_final || IsKilledAtMost(turn.state(), rank.exit);
  const MemoryTold* told = MemoryToldOf(turn.state(), *turn.state().Find(node));
  if (told != nullptr && rank.exit.cgroup_oom) causes.push_back(told->seq);
  const RecordSeq seq = turn.Emit(std::move(failure), std::move(causes));
  RaiseAfterKill(turn, node, rank, seq);
}

void Recount(bool now, bool& flag, uint32_t& count) {
  if (now == flag) return;
  flag = now;
  count += now ? 1 : -1;
}

void CountNode(Turn& turn, const Seat& seat, NodeLink& link, Generation generation) {
  uint32_t running = 0;
  uint32_t stepping = 0;
  uint32_t done = 0;
  uint32_t quiet = 0;
  for (const auto& [local, rank] : link.ranks) {
    if (rank.generation != generation) continue;
    if (rank.is_quiet && rank.state != State::kExited) ++quiet;
    const bool finished = rank.state == State::kExited && rank.exit.is_success();
    if (finished) ++done;
    if (finished || rank.state == State::kStepping) ++stepping;
    if (finished || rank.state == State::kStepping || rank.state == State::kRunning) ++running;
  }
  Watch& watch = turn.watch();
  Recount(running >= seat.rank_count, link.running, watch.running_seats);
  Recount(stepping >= seat.rank_count, link.stepping, watch.stepping_seats);
  Recount(done >= seat.rank_count, link.done, watch.done_seats);
  watch.quiet_ranks += quiet - std::exchange(link.quiet, quiet);
}

// True: this report repeats an older one, or was overtaken.
bool HasEndedBefore(const NodeLink& link, const RankReport& rank) {
  const auto known = link.ranks.find(rank.local_rank);
  return known != link.ranks.end() && known->second.generation == rank.generation &&
         known->second.state == State::kExited;
}

// A rank of the current world, on the node that holds its seat.
void TakeRank(Turn& turn, NodeId node, const RankReport& rank) {
  NodeLink& link = turn.Link(node);
  const auto known = link.ranks.find(rank.local_rank);
  if (HasEndedBefore(link, rank)) return;
  Watch& watch = turn.watch();
  const bool was_known = known != link.ranks.end();
  if (was_known && known->second.saved_step != rank.saved_step) watch.dirty = true;
  watch.step = std::max(watch.step, rank.step);
  watch.world_step = std::max(watch.world_step, rank.step);
  if (rank.step_count > watch.step_count) {
    watch.step_count = rank.step_count;
    watch.stepped_at = turn.now();
  }
  watch.saved_files = std::max(watch.saved_files, rank.saved_files);
  if (was_known && rank.saved_files > known->second.saved_files) {
    watch.filed_at = turn.now();
    watch.filed_step_count = rank.step_count;
    watch.dirty = true;
  }
  link.ranks[rank.local_rank] = rank;
  HearOfLoss(turn, rank);
  if (rank.saved_step > watch.saved_step) {
    watch.saved_step = rank.saved_step;
    watch.saved_at = turn.now();
    watch.saved_step_count = rank.step_count;
    watch.dirty = true;
  }
  if (rank.state == State::kExited && !rank.exit.is_success()) TakeFailure(turn, node, rank);
}

bool IsOfWorld(const JobState& state, const NodeState& node, const RankReport& rank) {
  if (!state.IsSeated(node.id) || rank.generation != state.world->generation) return false;
  const Seat& seat = state.SeatOf(node);
  return rank.local_rank < seat.rank_count &&
         rank.rank.value() == seat.first_rank + rank.local_rank;
}

void TakeRanks(Turn& turn, NodeId id, const std::vector<RankReport>& ranks) {
  constexpr size_t kRanksMax = 1024;
  size_t taken = 0;
  for (const RankReport& rank : ranks) {
    if (++taken > kRanksMax || rank.local_rank >= kRanksMax) break;
    const NodeState& node = *turn.state().Find(id);
    if (IsOfWorld(turn.state(), node, rank)) {
      TakeRank(turn, id, rank);
      continue;
    }
    MARK("rank of another world");
    NodeLink& link = turn.Link(id);
    const auto known = link.ranks.find(rank.local_rank);
    if (HasEndedBefore(link, rank)) continue;
    if (known == link.ranks.end() || known->second.generation <= rank.generation) {
      link.ranks[rank.local_rank] = rank;
    }
    if (rank.state == State::kExited && !rank.exit.is_success()) TakeLateFailure(turn, id, rank);
  }
  const NodeState& node = *turn.state().Find(id);
  if (turn.state().IsSeated(id)) {
    const Seat& seat = turn.state().SeatOf(node);
    CountNode(turn, seat, turn.Link(id), turn.state().world->generation);
  }
}

// A single node with a block of generations restarted itself while there was no master.
void TakeSoloRestart(Turn& turn, NodeId id, Generation reported,
                     const std::vector<RankReport>& ranks) {
  Generation newest = reported;
  for (const RankReport& rank : ranks) newest = std::max(newest, rank.generation);
  const JobState& state = turn.state();
  // An order to stop is numbered above the whole block, and a node that completes it reports that
  // number.
  if (state.phase == Phase::kStopping || state.phase == Phase::kFinished) return;
  if (!state.IsSeated(id) || state.world->seats.size() != 1) return;
  if (newest <= state.world->generation || newest > state.solo_last) return;
  MARK("solo restart");
  turn.Emit(SoloRestarted{.node = id,
                          .name = state.NameOf(id),
                          .generation = newest,
                          .reason = "restarted by itself while no master ran"},
            {state.world_seq});
  turn.Link(id).ranks.clear();
  ResetWorldWatch(turn);
}

void TakePort(NodeLink& link, Generation generation, uint32_t port) {
  if (port == 0) return;
  if (port == link.used_port && generation < link.used_in) return;
  link.store_port = port;
}

RankReport Vanished(const World& world, const Seat& seat, uint32_t local) {
  RankReport rank;
  rank.generation = world.generation;
  rank.rank = Rank(seat.first_rank + local);
  rank.local_rank = local;
  rank.state = State::kExited;
  rank.exit.kind = ExitCause::Kind::kUnknown;
  rank.exit.headline = "ended while no agent watched it";
  return rank;
}

}  // namespace

bool HoldsRanks(const NodeLink& link) {
  return std::any_of(link.ranks.begin(), link.ranks.end(),
                     [](const auto& entry) { return entry.second.state != State::kExited; });
}

void TakeNews(Turn& turn, NodeId id, const NodeNews& news) {
  TakeSoloRestart(turn, id, news.generation, news.ranks);
  NodeLink& link = turn.Link(id);
  link.carried_out = std::max(link.carried_out, news.generation);
  const uint32_t port_before = link.store_port;
  TakePort(link, news.generation, news.store_port);
  if (port_before == 0 && link.store_port != 0) turn.watch().dirty = true;
  if (!news.ranks.empty()) TakeRanks(turn, id, news.ranks);
}

void TakeWholeTruth(Turn& turn, NodeId id, const NodeReport& report) {
  TakeSoloRestart(turn, id, report.generation, report.ranks);
  NodeLink& link = turn.Link(id);
  const JobState& state = turn.state();
  const bool seated = state.IsSeated(id);
  const Generation current = seated ? state.world->generation : Generation();
  const bool carried_out = seated && (link.carried_out >= current || report.generation >= current ||
                                      state.phase == Phase::kRunning);
  // Keep ends that were reported before; all else is as the agent reports now.
  for (auto it = link.ranks.begin(); it != link.ranks.end();) {
    const bool stays = it->second.generation == current && it->second.state == State::kExited;
    it = stays ? std::next(it) : link.ranks.erase(it);
  }
  link.carried_out = std::max(link.carried_out, report.generation);
  TakePort(link, report.generation, report.store_port);
  TakeRanks(turn, id, report.ranks);
  if (!carried_out) return;
  std::vector<RankReport> vanished;
  const Seat seat = state.SeatOf(*state.Find(id));
  for (uint32_t local = 0; local < seat.rank_count; ++local) {
    const auto known = link.ranks.find(local);
    if (known != link.ranks.end() && known->second.generation == current) continue;
    vanished.push_back(Vanished(*state.world, seat, local));
  }
  if (vanished.empty()) return;
  MARK("rank vanished");
  TakeRanks(turn, id, vanished);
}

void FailStuckRank(Turn& turn, NodeId id, const std::string& reason) {
  const JobState& state = turn.state();
  if (!state.IsSeated(id) || state.incident.pending) return;
  MARK("start timeout");
  const Seat seat = state.SeatOf(*state.Find(id));
  const auto& ranks = turn.Link(id).ranks;
  for (uint32_t local = 0; local < seat.rank_count; ++local) {
    const auto known = ranks.find(local);
    const bool runs = known != ranks.end() && known->second.generation == state.world->generation &&
                      known->second.state != State::kStarting;
    if (runs && local + 1 < seat.rank_count) continue;
    RankReport rank = Vanished(*state.world, seat, local);
    rank.exit.kind = ExitCause::Kind::kNotStarted;
    rank.exit.headline = reason;
    TakeFailure(turn, id, rank);
    return;
  }
}

void FailHungRank(Turn& turn, Rank number, const ExitCause& cause, RecordSeq verdict) {
  const JobState& state = turn.state();
  if (!state.world || state.incident.pending) return;
  for (const Seat& seat : state.world->seats) {
    const uint32_t local = number.value() - seat.first_rank;  // very large if it is before the seat
    if (number.value() < seat.first_rank || local >= seat.rank_count) continue;
    const auto& ranks = turn.Link(seat.node).ranks;
    const auto known = ranks.find(local);
    RankReport rank = known != ranks.end() && known->second.generation == state.world->generation
                          ? known->second
                          : Vanished(*state.world, seat, local);
    rank.exit = cause;
    NoteProgress(turn);
    turn.Emit(Failure(state, seat.node, rank), {verdict});
    return;
  }
}

bool NoteAdvance(Turn& turn) {
  const JobState& state = turn.state();
  if (!state.world) return false;
  const uint32_t finished = state.finished_count;
  const auto seats = static_cast<uint32_t>(state.world->seats.size());
  const Watch& watch = turn.watch();
  if (watch.done_seats + finished >= seats) {
    turn.Emit(StopDecided{.exit_code = 0, .grace = Duration(), .reason = "every rank is done"},
              {state.world_seq});
    return true;
  }
  if (state.phase != Phase::kStarting) return NoteProgress(turn);
  const bool stepping = watch.stepping_seats + finished >= seats;
  const bool stepless =
      watch.running_seats + finished >= seats && turn.now() >= state.phase_since + kStepless;
  if (!stepping && !stepless) return NoteProgress(turn);
  int64_t step = -1;
  int64_t began_at = 0;
  bool is_own_count = false;
  for (const Seat& seat : state.world->seats) {
    for (const auto& [local, rank] : turn.Link(seat.node).ranks) {
      if (rank.step < 0 || (step >= 0 && rank.step >= step)) continue;
      step = rank.step;
      began_at = std::max(int64_t{0}, rank.step - rank.step_count);
      is_own_count = rank.is_own_step;
    }
  }
  if (state.world->restart_count > 0) {
    turn.watch().restart_took = turn.now() - state.world_since;
  }
  turn.Emit(WorldRunning{.generation = state.world->generation,
                         .step = step,
                         .began_at = began_at,
                         .has_no_step = !stepping && watch.step_count == 0,
                         .is_own_count = is_own_count},
            {state.world_seq});
  return true;
}

Instant AdvanceDeadline(const JobState& state, const Watch& watch) {
  if (!state.world) return Instant::Max();
  const bool all_run = watch.running_seats + state.finished_count >= state.world->seats.size();
  if (state.phase == Phase::kStarting && all_run) return state.phase_since + kStepless;
  const bool is_awaited = state.phase == Phase::kRunning && !state.progress_in_world &&
                          state.budget.failures_without_progress > 0;
  if (!is_awaited) return Instant::Max();
  if (watch.step_count > 0) {
    return state.evidence_in_world ? Instant::Max() : state.phase_since + LongAttempt(watch);
  }
  return watch.step < 0 ? state.phase_since + kQuietProgress : Instant::Max();
}

void ForgetNodeWatch(Turn& turn, NodeId node) {
  NodeLink& link = turn.Link(node);
  Watch& watch = turn.watch();
  Recount(false, link.running, watch.running_seats);
  Recount(false, link.stepping, watch.stepping_seats);
  Recount(false, link.done, watch.done_seats);
  watch.quiet_ranks -= std::exchange(link.quiet, 0);
}

void ResetWorldWatch(Turn& turn) {
  Watch& watch = turn.watch();
  watch.running_seats = 0;
  watch.stepping_seats = 0;
  watch.done_seats = 0;
  watch.quiet_ranks = 0;
  watch.hang = HangWatch{.round = watch.hang.round};
  watch.step_count = 0;
  watch.stepped_at = Instant();
  watch.world_step = -1;
  watch.saved_files = 0;
  watch.filed_at = Instant();
  watch.filed_step_count = 0;
  watch.saved_step_count = 0;
  watch.check_all = true;
  for (auto& [id, link] : turn.links()) {
    link.running = false;
    link.stepping = false;
    link.done = false;
    link.quiet = 0;
  }
}

}  // namespace paceline::core
