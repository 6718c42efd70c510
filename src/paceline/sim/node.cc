#include "paceline/sim/node.h"

#include <csignal>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/sim/world.h"

namespace paceline::sim {

ExitCause Killed(int signal) {
  ExitCause cause;
  cause.kind = ExitCause::Kind::kSignaled;
  cause.code = signal;
  cause.fingerprint = "signal " + std::to_string(signal);
  cause.headline = cause.fingerprint;
  return cause;
}

Node::Node(SimWorld& world, uint32_t index, std::string name)
    : world_(world), index_(index), name_(std::move(name)), saves_(world, *this) {}

ArenaShelf& Node::shelf() {
  return world_.options().local_platform ? world_.machine_shelf() : shelf_;
}

// ---- the host ----

void Node::PowerOn() {
  if (is_on_ || is_silent_) return;
  is_on_ = true;
  agent_wanted_ = true;
  ++boots_;
  has_dead_port_ = will_have_dead_port_;
  // Nodes of one machine share its kernel, which survives the kill of a node's processes.
  boot_id_ = world_.options().local_platform
                 ? "boot1"
                 : "host" + std::to_string(index_) + "-boot" + std::to_string(boots_);
  world_.trace().Add(world_.queue().now(), name_, "power_on", boots_);
  BeginMemory();
  StartAgent();
}

void Node::PowerOff(bool is_silent) {
  if (!is_on_) return;
  world_.trace().Add(world_.queue().now(), name_, "power_off", is_silent ? 1 : 0);
  world_.SyncSaves(*this);
  is_on_ = is_frozen_ = is_stalled_ = is_refusing_ = false;
  starter_ = Starter::kNone;
  if (agent_ != nullptr) {
    agent_->Die(is_silent);
    world_.Retire(std::move(agent_));
  }
  // Nodes of one machine are killed by signals and leave their pages in shared memory. A rebooted
  // host may find its page, too, but its new boot id takes precedence.
  const bool keeps_page = world_.options().local_platform;
  if (!keeps_page) {
    ended_.clear();
    saved_generation_ = Generation();
  }
  const std::map<int32_t, RankProcess> gone = std::exchange(processes_, {});
  for (const auto& [pid, process] : gone) {
    if (keeps_page) {
      ended_[process.local_rank] = {Report(process), world_.queue().now()};
      RankReport& report = ended_[process.local_rank].report;
      report.state = RankReport::State::kExited;
      report.exit.headline = "ended; the wait status was lost";
    }
    saves_.Ended(pid);
    world_.workload().Leave(process.generation, process.rank, pid, false);
    world_.ProcessEnded(process, Killed(SIGKILL));
  }
  shelf_.Clear();
}

void Node::Freeze() {
  if (!is_on_ || is_frozen_) return;
  world_.SyncSaves(*this);
  is_frozen_ = true;
  if (agent_ != nullptr) agent_->Freeze();
  world_.workload().Refresh();
}

void Node::Thaw() {
  if (is_silent_) return;
  is_frozen_ = false;
  for (auto& [pid, process] : processes_) {
    process.is_frozen = false;
    process.frozen_until = world_.queue().now();
  }
  world_.workload().Refresh();
  if (agent_ != nullptr) agent_->Thaw();
}

void Node::FallSilent(Silence kind) {
  world_.trace().Add(world_.queue().now(), name_, "silent_for_ever", static_cast<uint64_t>(kind));
  is_silent_ = true;
  if (kind == Silence::kFrozen) {
    Freeze();
    return;
  }
  world_.network().CutForEver(host(), kMasterHost);
  if (kind == Silence::kCutOff) world_.network().CutForEver(kMasterHost, host());
}

// ---- the checks of the user ----

void Node::BeginChecks() {
  check_.state = passed_boot_ == boot_id_ ? NodeCheck::State::kPassed : NodeCheck::State::kRunning;
  check_.reason.clear();
  if (check_.state == NodeCheck::State::kRunning) check_.round = 0;
}

void Node::BeginChecksAgain(uint32_t round) {
  passed_boot_.clear();
  check_ = {.state = NodeCheck::State::kRunning, .round = round};
}

void Node::EndChecks() {
  const bool has_passed = !is_bad_ || is_half_;
  if (has_passed) passed_boot_ = boot_id_;
  check_.state = has_passed ? NodeCheck::State::kPassed : NodeCheck::State::kFailed;
  check_.reason = has_passed ? "" : "gpu.sh: one of 8 GPUs is missing";
  const int64_t speed = world_.prng().Between(80, 120) / (is_half_ ? 2 : 1);
  check_.numbers =
      has_passed ? Concat("{\"host\":{\"matmul_gflops\":", speed, ",\"memory_gb_s\":100}}") : "";
  world_.trace().Add(world_.queue().now(), name_, "checked",
                     has_passed ? static_cast<uint64_t>(speed) : 0);
}

// ---- the agent ----

void Node::StartAgent() {
  const bool is_still = is_silent_ && is_frozen_;  // no process is awake that could start one
  if (!is_on_ || agent_ != nullptr || is_still) return;
  agent_ = std::make_unique<AgentHost>(world_, *this, world_.NextIncarnation());
  world_.trace().Add(world_.queue().now(), name_, "agent_start", agent_->incarnation());
  agent_->Start();
  saves_.AgentStarted();
}

void Node::KillAgent() {
  if (agent_ == nullptr) return;
  world_.trace().Add(world_.queue().now(), name_, "agent_killed", agent_->incarnation());
  const int32_t agent_pid = agent_->pid();
  agent_->Die(false);
  world_.Retire(std::move(agent_));
  world_.AgentDied(index_, agent_pid);
  EndOrphansAfter(++agent_deaths_);
}

void Node::EndOrphansAfter(uint64_t death) {
  world_.queue().After(world_.options().spec.timers.orphan_after, [this, death, boots = boots_] {
    const bool is_orphaned = is_on_ && boots == boots_ && agent_ == nullptr;
    if (!is_orphaned || death != agent_deaths_) return;
    // Without a starter, the launcher ends them at the end of the job.
    const bool somebody_can = starter_ != Starter::kNone || world_.master().has_finished();
    if (is_frozen_ || !somebody_can) {
      EndOrphansAfter(death);
      return;
    }
    MARK("orphans ended");
    std::vector<int32_t> pids;
    for (const auto& [pid, process] : processes_) pids.push_back(pid);
    for (const int32_t pid : pids) EndRank(pid, Killed(SIGKILL));
  });
}

void Node::Restart() {
  if (is_on_ && agent_ == nullptr && !agent_wanted_) {
    agent_wanted_ = true;
    StartAgent();
  }
}

void Node::AgentExited(uint64_t incarnation, int exit_code) {
  if (agent_ == nullptr || agent_->incarnation() != incarnation) return;
  world_.trace().Add(world_.queue().now(), name_, "agent_exit", static_cast<uint64_t>(exit_code));
  agent_->Die(false);
  world_.Retire(std::move(agent_));
  agent_wanted_ = false;
  world_.EndNotices(*this);
}

AgentHost* Node::AgentOf(uint64_t incarnation) {
  return agent_ != nullptr && agent_->incarnation() == incarnation ? agent_.get() : nullptr;
}

// ---- the starter ----

void Node::StartStarter(bool is_fresh) {
  if (starter_ == Starter::kStarting && !is_fresh) return;
  const bool is_warm = starter_ == Starter::kReady && !is_fresh;
  starter_ = is_warm ? Starter::kReady : Starter::kStarting;
  const uint64_t count = ++starter_count_;
  const Duration wait =
      is_warm ? Duration::Milliseconds(1) : Duration::Milliseconds(world_.prng().Between(100, 800));
  world_.queue().After(wait, [this, count] {
    if (!is_on_ || count != starter_count_) return;
    starter_ = Starter::kReady;
    if (agent_ != nullptr) agent_->Feed(core::StarterReady{});
  });
}

void Node::KillStarter() {
  if (!is_on_ || starter_ == Starter::kNone) return;
  starter_ = Starter::kNone;
  ++starter_count_;
  world_.trace().Add(world_.queue().now(), name_, "starter_killed");
  if (agent_ != nullptr) agent_->Feed(core::StarterLost{"its socket closed"});
}

// ---- ranks ----

void Node::Spawn(const SpawnOrder& order) {
  const Duration wait = Duration::Microseconds(is_refusing_ ? world_.prng().Between(1'000, 500'000)
                                                            : world_.prng().Between(5'000, 20'000));
  world_.queue().After(wait, [this, order, boots = boots_, count = starter_count_] {
    // An agent that left this starter for a fresh one gets no answer from it.
    if (is_on_ && boots == boots_ && count == starter_count_) Fork(order);
  });
  if (world_.options().canary == Canary::kDoubleRank) {
    world_.queue().After(wait * 2, [this, order, boots = boots_] {
      if (is_on_ && boots == boots_) Fork(order);
    });
  }
}

void Node::Fork(const SpawnOrder& order) {
  AgentHost* asker = AgentOf(order.agent_incarnation);
  const char* why = nullptr;
  if (starter_ != Starter::kReady) why = "the starter is gone";
  if (is_refusing_) why = "the slot is in use";
  if (is_frozen_) why = "the host stood still";
  if (why != nullptr) {
    if (asker == nullptr) return;
    asker->Feed(core::SpawnFailed{order.local_rank, order.assignment.generation, why});
    return;
  }
  if (asker == nullptr) return;  // the starter forks only for a connected agent
  RankProcess process;
  process.node = index_;
  process.pid = world_.NextPid();
  process.local_rank = order.local_rank;
  process.rank = order.rank;
  if (world_.options().canary == Canary::kWrongSeat && order.assignment.seat == 1) {
    process.rank = Rank(order.rank.value() - order.assignment.first_rank);
  }
  process.generation = order.assignment.generation;
  process.world_size = order.assignment.world_size;
  process.restart_count = order.assignment.restart_count;
  process.memory = world_.options().memory.rank_bytes;
  processes_[process.pid] = process;
  ended_.erase(order.local_rank);
  world_.ProcessStarted(process);
  const Duration import = Duration::Nanoseconds(world_.prng().Between(
      world_.options().import_min.nanoseconds(), world_.options().import_max.nanoseconds()));
  world_.queue().After(import, [this, pid = process.pid] { Import(pid); });
  asker->Feed(core::RankSpawned{order.local_rank, process.generation, process.pid});
}

void Node::Import(int32_t pid) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  if (!IsAwake(pid) || is_stalled_) {
    world_.queue().After(Duration::Milliseconds(100), [this, pid] { Import(pid); });
    return;
  }
  RankProcess& process = it->second;
  if (process.local_rank == 0 && process.rank == Rank(0) && world_.TakePortAway()) {
    ExitCause cause;
    cause.kind = ExitCause::Kind::kExited;
    cause.code = 1;
    cause.port_taken = true;
    cause.headline = "the store's port is taken";
    EndRank(pid, cause);
    return;
  }
  process.is_running = true;
  if (world_.options().saves.is_used) return saves_.Begin(pid);
  world_.workload().Join(process.generation, process.world_size, process.rank, {index_, pid}, {});
}

void Node::Signal(uint32_t local_rank, int32_t pid, int signal) {
  const auto it = processes_.find(pid);
  if (it == processes_.end() || it->second.local_rank != local_rank) return;
  if (signal == SIGKILL) {
    const Canary canary = world_.options().canary;
    if (canary == Canary::kHoldExits) return;
    if (canary == Canary::kForgetToFence) {
      RankReport report = Report(it->second);
      report.state = RankReport::State::kExited;
      report.exit = Killed(SIGKILL);
      TellEnd(report);
      return;
    }
  } else if (!IsAwake(pid)) {
    return;  // a stopped process does not handle signals
  }
  const int64_t wait_us = signal == SIGKILL ? world_.prng().Between(500, 3'000)
                                            : world_.prng().Between(1'000, 2'000'000);
  if (signal != SIGKILL && world_.prng().Chance(1, 10)) return;  // its handler hangs
  world_.queue().After(Duration::Microseconds(wait_us),
                       [this, pid, signal] { EndRank(pid, Killed(signal)); });
}

void Node::EndRank(int32_t pid, const ExitCause& cause) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  const bool by_itself = cause.kind == ExitCause::Kind::kExited;
  if (by_itself && !IsAwake(pid)) {
    world_.queue().After(Duration::Milliseconds(500), [this, pid, cause] { EndRank(pid, cause); });
    return;
  }
  RankReport report = Report(it->second);
  report.state = RankReport::State::kExited;
  report.exit = cause;
  if (starter_ == Starter::kNone) {  // not reaped
    report.exit = ExitCause{};
    report.exit.headline = "ended; the wait status was lost";
  }
  world_.SyncSaves(*this);
  const RankProcess process = it->second;
  const core::StationPeer peer = saves_.PeerOf(pid);
  processes_.erase(it);
  saves_.Ended(pid);
  ended_[process.local_rank] = {report, world_.queue().now()};
  world_.workload().Leave(process.generation, process.rank, pid, cause.is_success());
  world_.ProcessEnded(process, cause);
  if (agent_ != nullptr && peer != 0) {
    agent_->Later(Duration(),
                  [peer](AgentHost& agent) { agent.station().Feed(core::RankClosed{peer}); });
  }
  if (world_.options().canary == Canary::kLoseExit && !cause.is_success()) return;
  TellEnd(report);
}

void Node::TellEnd(const RankReport& report) {
  world_.queue().After(Duration::Milliseconds(1), [this, report, at = world_.queue().now()] {
    if (agent_ == nullptr) return;  // the next agent finds it on the page
    agent_->Feed(core::RankEnded{report.local_rank, report.generation, report.pid, report.exit,
                                 world_.queue().now() - at});
  });
}

void Node::FreezeRank(int32_t pid) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  world_.SyncSaves(*this);
  it->second.is_frozen = true;
  world_.workload().Refresh();
}

void Node::ThawRank(int32_t pid) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  it->second.is_frozen = false;
  it->second.frozen_until = world_.queue().now();
  world_.workload().Refresh();
}

bool Node::IsAwake(int32_t pid) const {
  const auto it = processes_.find(pid);
  return is_on_ && !is_frozen_ && it != processes_.end() && !it->second.is_frozen;
}

RankReport Node::Report(const RankProcess& process) const {
  RankReport report;
  report.generation = process.generation;
  report.rank = process.rank;
  report.local_rank = process.local_rank;
  report.pid = process.pid;
  report.state = process.is_running ? RankReport::State::kRunning : RankReport::State::kStarting;
  if (process.is_running) world_.workload().Fill(report);
  return report;
}

std::vector<RankReport> Node::Found() const {
  std::vector<RankReport> found;
  for (const auto& [local_rank, ended] : ended_) {
    found.push_back(ended.report);
    found.back().ended_for = world_.queue().now() - ended.at;
  }
  for (const auto& [pid, process] : processes_) found.push_back(Report(process));
  return found;
}

uint32_t Node::restart_count_of(int32_t pid) const {
  const auto it = processes_.find(pid);
  return it == processes_.end() ? 0 : it->second.restart_count;
}

}  // namespace paceline::sim
