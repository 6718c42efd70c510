#include "paceline/core/node/agent.h"

#include <algorithm>

#include "paceline/base/mark.h"
#include "paceline/core/finish.h"
#include "paceline/core/node/order.h"
#include "paceline/core/signal_number.h"

namespace paceline::core {

namespace {

// Tries to spawn one rank before its failure is reported like an exit.
constexpr uint32_t kSpawnFailuresMax = 3;
// Restarts in a row without a master and without progress. The master would look at more evidence.
constexpr uint32_t kSoloFailuresMax = 3;

using Kind = Assignment::Kind;
using State = RankReport::State;

}  // namespace

// One step: applies the event, then Reconcile() does what the assignment still requires.
class AgentTurn {
 public:
  AgentTurn(AgentMachine& machine, Instant now) : m_(machine), now_(now) {}

  void operator()(const MasterLinked&) {
    m_.linked_ = true;
    m_.refused_.reset();
  }

  void operator()(const MasterRefused& event) { m_.refused_ = event; }

  void operator()(const MasterUnlinked&) {
    if (m_.linked_) m_.unlinked_since_ = now_;
    m_.linked_ = false;
  }

  void operator()(const AssignmentReceived& event) { TakeAssignment(event.assignment); }

  void operator()(const StarterReady&) {
    m_.starter_ready_ = true;
    m_.starter_asked_ = false;
  }

  void operator()(const StarterLost& event) {
    const bool never_came = m_.starter_asked_ && !m_.starter_ready_;
    m_.starter_ready_ = false;
    m_.starter_asked_ = false;
    ForgetSpawns("the starter went away: " + event.why);
    if (never_came) MissStarter(event.why);
  }

  void operator()(const RankFound& event) {
    Slot& slot = m_.slots_[event.rank.local_rank];
    const bool older = slot.process && slot.process->generation > event.rank.generation;
    if (older) return;
    slot = Slot{};
    slot.process = event.rank;
    slot.alive = event.rank.state != State::kExited;
    NoteEnded(slot, event.rank.ended_for);
  }

  void operator()(const RankSpawned& event) {
    Slot& slot = m_.slots_[event.local_rank];
    if (slot.alive && slot.process && slot.process->pid == event.pid) return;
    RankReport rank;
    rank.generation = event.generation;
    rank.rank = slot.spawning_rank;  // the next assignment may have come since
    rank.local_rank = event.local_rank;
    rank.pid = event.pid;
    slot = Slot{};
    slot.alive = true;
    slot.process = rank;
    if (rank.rank.value() == 0) Do(HoldStorePort{});
  }

  void operator()(const SpawnFailed& event) {
    Slot& slot = m_.slots_[event.local_rank];
    if (!slot.spawning || slot.spawning_generation != event.generation) return;
    slot.spawning = false;
    SpawnDidFail(event.local_rank, slot, event.why);
  }

  void operator()(const RankEnded& event) { TakeEnd(event); }

  void operator()(const ProgressRead& event) {
    for (const RankReport& rank : event.ranks) {
      const auto found = m_.slots_.find(rank.local_rank);
      if (found == m_.slots_.end() || !found->second.alive) continue;
      RankReport& process = *found->second.process;
      if (process.generation != rank.generation || process.pid != rank.pid) continue;
      if (rank.state == State::kExited) continue;  // RankEnded reports its end
      const Rank number = process.rank;
      process = rank;
      process.rank = number;
    }
  }

  void operator()(const LeaveAsked& event) {
    const bool again = m_.leaving_.has_value();
    if (again && !event.force) return;
    MARK("agent asked to leave");
    m_.leaving_ = event;
    if (event.force) m_.leaving_->grace = Duration();
    if (!again) m_.stop_since_ = now_;
    if (!again) Do(TellLeaving{event.why});
    ShortenGrace(m_.leaving_->grace);
  }

  void operator()(const AgentTimePassed&) {}

  void operator()(const StorePortHeld& event) {
    m_.held_port_ = event.port;
    if (m_.linked_) Do(ReportNow{});
  }

  std::vector<AgentAction> Finish() {
    if (!m_.linked_ && !m_.refused_) GoOnAlone();
    GiveUpSearch();
    LeaveRefused();
    Reconcile();
    return std::move(actions_);
  }

 private:
  using Slot = AgentMachine::Slot;

  void Do(AgentAction action) { actions_.push_back(std::move(action)); }

  bool Ending() const {
    return m_.leaving_ || m_.assignment_.kind == Kind::kStop || m_.assignment_.kind == Kind::kLeave;
  }

  Duration Grace() const { return m_.leaving_ ? m_.leaving_->grace : m_.assignment_.grace; }

  int FirstSignal() const {
    const int signal = m_.leaving_ ? m_.leaving_->signal : m_.assignment_.signal;
    return signal == 0 ? kSigterm : signal;
  }

  void TakeAssignment(const Assignment& next) {
    Assignment& now = m_.assignment_;
    if (next.generation < now.generation) {
      MARK("stale assignment");
      return;
    }
    const bool same = next.generation == now.generation;
    if (same && Precedence(next.kind) < Precedence(now.kind)) return;
    if (same && next.kind == Kind::kRun && now.kind == Kind::kRun && m_.Holds(now)) {
      // The same order again. Running ranks stay as they are, with their own store.
      now.solo_first = next.solo_first;
      now.solo_last = next.solo_last;
      return;
    }
    const bool was_ending = Ending();
    // A port that was promised to one world must not be used for another.
    const bool promised = now.kind == Kind::kRun && now.first_rank == 0 && now.rank_count > 0 &&
                          m_.carried_out_ < now.generation;
    const bool missed = now.generation.value() != 0 && next.generation > now.generation.next();
    const bool serves = next.kind == Kind::kRun && next.first_rank == 0;
    if (!serves && (promised || (!same && missed))) Do(HoldStorePort{});
    if (!same) m_.fresh_asked_ = false;
    for (auto& [local, slot] : m_.slots_) {
      const bool waits_for_a_try = slot.spawn_failures > 0 && slot.Lacks(slot.spawning_generation);
      const std::optional<WantedRank> wanted = WantedIn(next, local);
      const bool is_over = !wanted || wanted->generation != slot.spawning_generation;
      if (is_over && waits_for_a_try)
        TellNotStarted(local, slot, "the master has withdrawn it", true);
      if (is_over) slot.spawn_failures = 0;
    }
    now = next;
    if (!Ending()) return;
    if (!was_ending) m_.stop_since_ = now_;
    ShortenGrace(Grace());
  }

  // A second, stricter request shortens the grace of the ranks, counted from now.
  void ShortenGrace(Duration grace) {
    for (auto& [local, slot] : m_.slots_) {
      if (slot.termed && !slot.killed) slot.kill_at = std::min(slot.kill_at, now_ + grace);
    }
  }

  // No starter will answer these starts. The host finds out whether a rank was started and then
  // sends RankFound.
  void ForgetSpawns(const std::string& why) {
    for (auto& [local, slot] : m_.slots_) {
      if (!slot.spawning) continue;
      slot.spawning = false;
      SpawnDidFail(local, slot, why);
    }
  }

  void SpawnDidFail(uint32_t local, Slot& slot, const std::string& why) {
    const std::optional<WantedRank> order = WantedIn(m_.assignment_, local);
    const bool wanted =
        order.has_value() && !m_.leaving_ && slot.spawning_generation == order->generation;
    const bool tries_again = wanted && ++slot.spawn_failures < kSpawnFailuresMax;
    // The port was released for this start. Without a new one no later world could be formed here.
    if (!tries_again && m_.held_port_ == 0) Do(HoldStorePort{});
    if (!tries_again) TellNotStarted(local, slot, why, !wanted);
  }

  // Reports the failed start even if the rank is not wanted any more: the master knows that the
  // rank was starting, and waits for its end.
  void TellNotStarted(uint32_t local, Slot& slot, const std::string& why, bool is_asked) {
    MARK("spawn failed");
    RankReport rank;
    rank.generation = slot.spawning_generation;
    rank.rank = slot.spawning_rank;
    rank.local_rank = local;
    rank.state = State::kExited;
    rank.exit.kind = ExitCause::Kind::kNotStarted;
    rank.exit.headline = why;
    rank.exit.asked = is_asked;
    slot.process = rank;
    Do(ReportRankExit{rank});
  }

  static void BeginSpawn(const WantedRank& wanted, Slot& slot) {
    slot.spawning_generation = wanted.generation;
    slot.spawning_rank = wanted.rank;
  }

  // Without a starter, the ranks that wait for it fail, as after a failed start.
  void MissStarter(const std::string& why) {
    if (m_.leaving_) return;
    for (const WantedRank& wanted : WantedRanks(m_.assignment_)) {
      Slot& slot = m_.slots_[wanted.slot];
      if (!slot.Lacks(wanted.generation)) continue;
      BeginSpawn(wanted, slot);
      SpawnDidFail(wanted.slot, slot, why);
    }
  }

  // The report itself keeps no age, which would differ at each look.
  void NoteEnded(Slot& slot, Duration ago) {
    slot.ended_at = ago > Duration() ? now_ - ago : Instant::Max();
    slot.process->ended_for = Duration();
  }

  void TakeEnd(const RankEnded& event) {
    const auto found = m_.slots_.find(event.local_rank);
    if (found == m_.slots_.end()) return;
    Slot& slot = found->second;
    const bool of_process = slot.alive && slot.process->pid == event.pid;
    if (!of_process) {
      // The rank ended before its start was reported.
      const bool early = slot.spawning && slot.spawning_generation == event.generation;
      if (!early) return;
      (*this)(RankSpawned{event.local_rank, event.generation, event.pid});
      TakeEnd(event);
      return;
    }
    RankReport& rank = *slot.process;
    rank.state = State::kExited;
    rank.exit = event.cause;
    NoteEnded(slot, event.ended_for);
    // A rank that failed by itself before the signal reached it is still reported.
    const bool by_itself =
        event.cause.kind == ExitCause::Kind::kExited && !slot.termed && event.cause.code != 0;
    rank.exit.asked = event.cause.asked || (slot.killed && !by_itself) || slot.termed;
    slot.alive = false;
    slot.termed = false;
    slot.killed = false;
    slot.kill_at = Instant::Max();
    slot.stuck_at = Instant::Max();
    if (!m_.linked_) return;
    RankReport told = rank;
    told.ended_for = event.ended_for;
    Do(ReportRankExit{std::move(told)});
  }

  // Without a master, a node with a block of generations restarts its own world.
  void GoOnAlone() {
    Assignment& mine = m_.assignment_;
    const bool is_whole = mine.rank_count == mine.world_size && mine.tasks.empty();
    if (m_.leaving_ || mine.kind != Kind::kRun || !is_whole) return;
    const Slot* failed = nullptr;
    for (const auto& [local, slot] : m_.slots_) {
      const bool ended =
          slot.IsOf(mine.generation) && !slot.alive && !slot.process->exit.is_success();
      if (ended) failed = &slot;
    }
    if (failed == nullptr) return;
    const bool granted = mine.solo_first.value() != 0 && mine.solo_first <= mine.solo_last;
    const bool allowed = !m_.spec_.max_restarts || mine.restart_count < *m_.spec_.max_restarts;
    if (!granted || !allowed || m_.held_port_ == 0) return;
    NoteSoloProgress();
    if (m_.solo_failures_without_progress_ >= kSoloFailuresMax) return;
    ++m_.solo_failures_without_progress_;
    MARK("agent restarts alone");
    Do(AgentNote{"rank " + ToString(failed->process->rank) +
                 " ended while no master runs: this node holds the whole job and restarts it"});
    mine.generation = m_.solo_generation_ = mine.solo_first;
    mine.solo_first = mine.solo_first.next();
    ++mine.restart_count;
    mine.store.port = m_.held_port_;
    mine.reason = "restarted without a master";
    m_.fresh_asked_ = false;
    for (auto& [local, slot] : m_.slots_) slot.spawn_failures = 0;
  }

  void NoteSoloProgress() {
    int64_t step = -1;
    int64_t step_count = 0;
    for (const auto& [local, slot] : m_.slots_) {
      if (!slot.process) continue;
      step = std::max(step, slot.process->step);
      step_count = std::max(step_count, slot.process->step_count);
    }
    const bool progress = step > m_.step_max_ || (step < 0 && step_count > m_.step_count_max_);
    if (!progress) return;
    m_.solo_failures_without_progress_ = 0;
    m_.step_max_ = step;
    m_.step_count_max_ = step_count;
  }

  void GiveUpSearch() {
    if (m_.linked_ || m_.leaving_) return;
    if (now_ < m_.unlinked_since_ + m_.spec_.timers.orphan_after) return;
    MARK("agent gives up");
    m_.leaving_ = LeaveAsked{"no master for " + ToString(m_.spec_.timers.orphan_after),
                             m_.spec_.timers.stop_grace, kExitUnreachable, false};
    m_.stop_since_ = now_;
  }

  void LeaveRefused() {
    if (!m_.refused_ || m_.leaving_) return;
    for (const auto& [local, slot] : m_.slots_) {
      if ((slot.alive || slot.spawning) && !m_.refused_->grace) return;
    }
    MARK("refused agent leaves");
    const Duration grace = m_.refused_->grace.value_or(Duration());
    m_.leaving_ = LeaveAsked{m_.refused_->why, grace, m_.refused_->exit_code, false};
    m_.stop_since_ = now_;
  }

  void Reconcile() {
    if (m_.exited_) return;
    bool clean = true;  // no unwanted process lives
    for (auto& [local, slot] : m_.slots_) {
      const bool wanted = IsWanted(local, slot);
      if (slot.alive && !wanted) {
        End(local, slot);
        clean = false;
      }
      if (slot.spawning && !IsWantedGeneration(local, slot.spawning_generation)) clean = false;
      NoteStuck(slot);
    }
    const bool runs = m_.assignment_.kind == Kind::kRun && !m_.leaving_;
    if (runs) {
      if (!m_.refused_) StartMissing();
    } else if (clean) {
      Settle();
    }
    // The starter of a spare imports what its ranks will need, before they are wanted.
    const bool is_idle = m_.assignment_.kind == Kind::kIdle && !Ending();
    if (is_idle && m_.linked_ && !m_.refused_ && !m_.starter_ready_) AskForStarter();
    const uint32_t round = is_idle && clean ? m_.assignment_.check_round : 0;
    if (round > m_.checks_begun_) Do(RunChecks{m_.checks_begun_ = round});
  }

  bool IsWantedGeneration(uint32_t local, Generation generation) const {
    const Assignment& assignment = m_.assignment_;
    if (Ending()) return false;
    if (assignment.kind == Kind::kIdle) return generation > assignment.generation;
    const std::optional<WantedRank> wanted = WantedIn(assignment, local);
    return wanted.has_value() && generation == wanted->generation;
  }

  bool IsWanted(uint32_t local, const Slot& slot) const {
    return slot.process && IsWantedGeneration(local, slot.process->generation);
  }

  void End(uint32_t local, Slot& slot) {
    const bool gently = Ending() && Grace() > Duration();
    if (gently && !slot.termed && !slot.killed) {
      slot.termed = true;
      slot.kill_at = m_.stop_since_ + Grace();
      Do(SignalRank{local, slot.process->pid, FirstSignal()});
      return;
    }
    if (slot.killed || (gently && now_ < slot.kill_at)) return;
    slot.killed = true;
    slot.kill_at = Instant::Max();
    slot.stuck_at = now_ + m_.spec_.timers.kill_patience;
    Do(SignalRank{local, slot.process->pid, kSigkill});
  }

  void NoteStuck(Slot& slot) {
    if (!slot.alive || now_ < slot.stuck_at) return;
    MARK("rank survives SIGKILL");
    slot.stuck_at = Instant::Max();
    Do(AgentNote{"process " + std::to_string(slot.process->pid) +
                 " still exists after SIGKILL: it is stuck in the kernel, and no rank takes its "
                 "place until it is gone"});
  }

  void StartMissing() {
    const Assignment& assignment = m_.assignment_;
    bool complete = true;
    bool missing = false;
    for (const WantedRank& wanted : WantedRanks(assignment)) {
      const Slot& slot = m_.slots_[wanted.slot];
      if (!slot.IsOf(wanted.generation)) complete = false;
      // A starter that is being replaced may never answer.
      const bool is_stale =
          slot.spawning && slot.spawning_generation != wanted.generation && IsFreshDue();
      if (slot.Lacks(wanted.generation) || is_stale) missing = true;
    }
    for (const auto& [local, slot] : m_.slots_) {
      if (slot.alive && !IsWanted(local, slot)) complete = false;
    }
    if (missing) Spawn();
    if (complete) CarriedOut(assignment.generation);
  }

  bool IsFreshDue() const { return m_.assignment_.fresh_starter && !m_.fresh_asked_; }

  void Spawn() {
    const Assignment& assignment = m_.assignment_;
    if (IsFreshDue()) {
      m_.fresh_asked_ = true;
      m_.starter_ready_ = false;
      m_.starter_asked_ = true;
      Do(StartStarter{true});
      ForgetSpawns("its starter was left for a fresh one");
    }
    if (!m_.starter_ready_) {
      AskForStarter();
      return;
    }
    for (const WantedRank& wanted : WantedRanks(assignment)) {
      Slot& slot = m_.slots_[wanted.slot];
      if (!slot.Lacks(wanted.generation)) continue;
      BeginSpawn(wanted, slot);
      slot.spawning = true;
      if (slot.spawning_rank.value() == 0) {
        Do(ReleaseStorePort{});
        m_.held_port_ = 0;
      }
      Do(SpawnRank{wanted.slot, wanted.rank, OrderFor(assignment, wanted)});
    }
  }

  void AskForStarter() {
    if (!m_.starter_asked_) Do(StartStarter{false});
    m_.starter_asked_ = true;
  }

  void CarriedOut(Generation generation) {
    if (m_.carried_out_ >= generation) return;
    m_.carried_out_ = generation;
    if (m_.linked_) Do(ReportNow{});
  }

  // No unwanted process lives, and no rank has to be started.
  void Settle() {
    const Assignment& assignment = m_.assignment_;
    CarriedOut(assignment.generation);
    const bool leave = m_.leaving_ || assignment.kind == Kind::kLeave;
    if (!leave) return;
    m_.exited_ = true;
    const bool own = m_.leaving_.has_value() && assignment.kind != Kind::kLeave;
    Do(ExitAgent{m_.leaving_ ? m_.leaving_->exit_code : assignment.exit_code,
                 own ? m_.leaving_->why : assignment.reason});
  }

  AgentMachine& m_;
  Instant now_;
  std::vector<AgentAction> actions_;
};

AgentMachine::AgentMachine(const JobSpec& spec, Generation used)
    : spec_(spec), carried_out_(used) {}

std::vector<AgentAction> AgentMachine::Step(Instant now, const AgentEvent& event) {
  if (!heard_of_time_) {
    heard_of_time_ = true;
    unlinked_since_ = now;
  }
  AgentTurn turn(*this, now);
  if (exited_) {
    // The machine has finished, but its host may still wait for the master.
    const bool counts = std::holds_alternative<MasterLinked>(event) ||
                        std::holds_alternative<MasterUnlinked>(event) ||
                        std::holds_alternative<MasterRefused>(event) ||
                        std::holds_alternative<LeaveAsked>(event);
    if (counts) std::visit(turn, event);
    return {};
  }
  std::visit(turn, event);
  return turn.Finish();
}

}  // namespace paceline::core
