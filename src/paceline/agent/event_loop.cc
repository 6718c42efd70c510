#include "paceline/agent/event_loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/agent/agent_json.h"
#include "paceline/agent/agent_setup.h"
#include "paceline/agent/hang/ring_desk.h"
#include "paceline/agent/heartbeat_clock.h"
#include "paceline/agent/leave_signal.h"
#include "paceline/agent/loop_log.h"
#include "paceline/agent/master_bond.h"
#include "paceline/agent/memory/link_desk.h"
#include "paceline/agent/rank_table.h"
#include "paceline/agent/ranks/page_file.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/ranks/plan_desk.h"
#include "paceline/agent/ranks/store_port.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/agent/starter/starter_client.h"
#include "paceline/agent/told_ranks.h"
#include "paceline/base/json.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/core/node/agent.h"
#include "paceline/wire/client/agent_stream.h"

namespace paceline::agent {
namespace {

// The page is read this often until each rank has made its first step, for which users wait.
constexpr int64_t kStartWatchNs = 20'000'000;
// Delay before a failed starter is started again; doubles each time.
constexpr int64_t kStarterDelayNs = 100'000'000;
constexpr int64_t kStarterDelayMaxNs = 5'000'000'000;
constexpr int64_t kTrimEveryNs = 5'000'000'000;

class AgentLoop {
 public:
  AgentLoop(AgentSetup setup, std::unique_ptr<Reactor> reactor, std::unique_ptr<PageFile> page);

  absl::Status Begin();
  int Run();
  bool is_job_over() const { return leave_.is_job_over; }

 private:
  void Feed(const core::AgentEvent& event);
  void FindRanks(bool with_ended);
  void OnStream(wire::AgentStreamEvent event);
  void OnRefusal(const wire::Refusal& refusal);
  void OnRescue(uint64_t term);
  void OnStarterReady(const StarterHello& hello);
  void OnStarterLost(const std::string& why);
  void OnSpawned(const StarterSpawned& spawned);
  void OnSpawnFailed(uint64_t id, const std::string& why);
  void OnSignal();
  void OnHeartbeat();
  void OnStartWatch();
  void Do(const core::StartStarter& action);
  void Do(const core::SpawnRank& action);
  void Do(const core::SignalRank& action);
  void Do(const core::ReleaseStorePort&) { store_port_.Release(); }
  void Do(const core::HoldStorePort& action);
  void Do(const core::ReportRankExit& action);
  void Do(const core::ReportNow&) { SendHeartbeat(); }
  void Do(const core::TellLeaving& action) { Tell(wire::Leaving{action.why}); }
  void Do(const core::ExitAgent& action);
  void Do(const core::AgentNote& action) { LogInfo("note", {{"text", action.text}}); }
  void Do(const core::RunChecks& action) { checks_.Again(action.round); }
  void ArmDeadline();
  void ArmHeartbeat();
  void SendHeartbeat();
  void Register();
  void SaveJson() { SaveAgentJson(setup_, saved_, machine_.assignment().restart_count, leave_); }
  void NoteCarriedOut();
  absl::Status OpenStation();
  void MayExit();
  // Dropped if there is no stream: the registration reports everything.
  void Tell(wire::AgentMessage message) {
    if (stream_ != nullptr) stream_->Send(std::move(message));
  }

  AgentSetup setup_;
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<PageFile> page_;
  core::AgentMachine machine_;
  StorePort store_port_;
  EvidenceDesk evidence_;
  RingDesk ring_desk_{*reactor_, evidence_.rings(), [this](auto piece) { Tell(std::move(piece)); }};
  RankTable ranks_;
  StarterClient starter_;
  std::unique_ptr<CheckpointStation> station_;
  TableLinks tables_{LinksPlaceOf(setup_), setup_.credentials};
  std::unique_ptr<LeaseRelay> leases_;  // null: it could not listen, so no data is leased here
  std::unique_ptr<wire::AgentStream> stream_;
  Fd signals_;

  std::deque<core::AgentEvent> events_;
  bool is_feeding_ = false;
  std::map<uint64_t, Spawning> spawning_;
  uint64_t next_spawn_id_ = 1;
  std::string starter_salt_;
  int64_t starter_delay_ns_ = 0;
  ToldRanks told_;
  HeartbeatClock beats_;
  int64_t trim_due_ns_ = 0;
  Reactor::TimerId heartbeat_timer_ = 0;
  Reactor::TimerId deadline_timer_ = 0;
  Reactor::TimerId start_watch_timer_ = 0;
  Reactor::TimerId starter_timer_ = 0;
  bool is_linked_ = false;
  core::StopAsks stop_asks_;
  bool has_ended_ = false;  // the machine has said that the agent must exit
  Leave leave_;             // set when it exits
  MasterBond bond_;
  CheckRunner checks_{*reactor_, CheckSetupOf(setup_),
                      [this](const NodeCheck& said) { Tell(said); }};
  LinkDesk links_{*reactor_, setup_.credentials, [this](const LinkTested& said) { Tell(said); }};
  PlanDesk plan_{[this](const PlanNote& note) { Tell(note); }};
  AgentProgress saved_;  // in agent.json
  int exit_code_ = 0;
};

AgentLoop::AgentLoop(AgentSetup setup, std::unique_ptr<Reactor> reactor,
                     std::unique_ptr<PageFile> page)
    : setup_(std::move(setup)),
      reactor_(std::move(reactor)),
      page_(std::move(page)),
      machine_(setup_.spec.job, setup_.former_generation),
      store_port_(setup_.incarnation),
      evidence_(*reactor_, EvidenceSetupOf(setup_),
                [this](const NodeEvidence& found) { Tell(found); }),
      ranks_(*reactor_, *page_,
             RankTableSetup{setup_.files, setup_.spec.job, setup_.spec.launch, setup_.base_env,
                            setup_.gloo_interface, &evidence_.rings(), setup_.incarnation + 1},
             [this](const core::RankEnded& ended, const std::optional<RankReport>& last) {
               if (last.has_value()) Feed(core::ProgressRead{{*last}});
               Feed(ended);
             }),
      starter_(*reactor_, setup_.spec.job.job_id, setup_.files.node,
               StarterListener{
                   .ready = [this](const StarterHello& hello) { OnStarterReady(hello); },
                   .spawned = [this](const StarterSpawned& spawned) { OnSpawned(spawned); },
                   .spawn_failed = [this](uint64_t id,
                                          const std::string& why) { OnSpawnFailed(id, why); },
                   .exited = [this](const StarterChild& child) { ranks_.OnStarterExited(child); },
                   .children =
                       [this](const auto& children) {
                         ranks_.OnStarterListed(children);
                         evidence_.NoteStops(children);
                       },
                   .lost = [this](const std::string& why) { OnStarterLost(why); }}),
      beats_(setup_.spec.job.timers.heartbeat_interval),
      bond_(setup_.former_term),
      saved_{setup_.former_generation, setup_.former_term, setup_.former_checkpoints} {}

absl::Status AgentLoop::Begin() {
  signals_ = OpenAgentSignals();
  RETURN_IF_ERROR(reactor_->Watch(signals_.get(), EPOLLIN, [this](uint32_t) { OnSignal(); }));
  RETURN_IF_ERROR(store_port_.Hold());
  Feed(core::StorePortHeld{store_port_.port()});
  if (page_->was_adopted()) FindRanks(/*with_ended=*/true);
  Feed(core::AgentTimePassed{});
  RETURN_IF_ERROR(OpenStation());
  leases_ = StartLeases(setup_);
  SaveJson();
  ForgetProblem(setup_.files);
  checks_.Start();
  stream_ = std::make_unique<wire::AgentStream>(
      StreamOptionsOf(setup_), [this](wire::AgentStreamEvent event) {
        reactor_->Post([this, event = std::move(event)] { OnStream(event); });
      });
  ArmHeartbeat();
  return absl::OkStatus();
}

absl::Status AgentLoop::OpenStation() {
  const CheckpointStation::Listener listener{
      .report = [this](const CheckpointReport& report) { Tell(report); },
      .over = [this] { MayExit(); },
      .plans = [this](const nlohmann::json& said) { return plan_.Take(said); },
      .rescued = [this](uint64_t term) { OnRescue(term); }};
  ASSIGN_OR_RETURN(station_, CheckpointStation::Open(*reactor_, StationSetupOf(setup_), listener));
  station_->SetGeneration(saved_.generation);
  station_->SetLinked(false);
  return absl::OkStatus();
}

int AgentLoop::Run() {
  reactor_->Run();
  stream_.reset();
  return exit_code_;
}

// Finds ranks that this agent did not start: of an earlier agent, or of a starter that died before
// it answered.
void AgentLoop::FindRanks(bool with_ended) {
  for (const FoundRank& found : ranks_.Find(with_ended)) {
    LogFound(found);
    if (found.is_alive) ranks_.Add(found.report, found.start_time_ticks);
    Feed(core::RankFound{found.report, setup_.former_restart_count});
  }
}

// One event at a time: events caused by an action wait until the earlier actions are done.
void AgentLoop::Feed(const core::AgentEvent& event) {
  events_.push_back(event);
  if (is_feeding_) return;
  is_feeding_ = true;
  while (!events_.empty()) {
    const core::AgentEvent next = std::move(events_.front());
    events_.pop_front();
    for (const core::AgentAction& action : machine_.Step(MonotonicNow(), next)) {
      std::visit([this](const auto& what) { Do(what); }, action);
    }
  }
  is_feeding_ = false;
  ArmDeadline();
  NoteCarriedOut();
  MayExit();
}

void AgentLoop::OnStream(wire::AgentStreamEvent event) {
  if (std::holds_alternative<wire::StreamOpened>(event)) {
    Register();
  } else if (const auto* broken = std::get_if<wire::StreamBroken>(&event)) {
    LogWarning("master_unlinked", {{"why", broken->why}, {"denied", broken->is_denied}});
    is_linked_ = false;
    station_->SetLinked(false);
    Feed(core::MasterUnlinked{broken->why});
    if (broken->is_denied) OnRefusal(DeniedBecause(broken->why));
  } else if (const auto* welcome = std::get_if<wire::Welcome>(&event)) {
    if (!bond_.Admit(*welcome)) return stream_->HangUp();
    station_->SetTerm(bond_.term());
    station_->SetLinked(true);
    LogInfo("master_linked", {{"node_id", welcome->node}, {"pid", ::getpid()}});
    is_linked_ = true;
    beats_.set_interval(welcome->heartbeat_interval);
    if (leases_ != nullptr) leases_->SetMaster(LeaseAddress(setup_, welcome->lease_port));
    Feed(core::MasterLinked{});
    station_->Linked();
    plan_.Linked();
    if (checks_.state().is_over()) Tell(checks_.state());  // the registration may be older
  } else if (auto* piece = std::get_if<wire::JournalBytes>(&event)) {
    Tell(bond_.Take(std::move(*piece)));
  } else if (const auto* wanted = std::get_if<wire::JournalWanted>(&event)) {
    Tell(bond_.Read(*wanted));
  } else if (const auto* refusal = std::get_if<wire::Refusal>(&event)) {
    OnRefusal(*refusal);
  } else if (!is_linked_) {
    return;  // of a master that was hung up on
  } else if (const auto* pace = std::get_if<wire::Pace>(&event)) {
    beats_.set_interval(pace->heartbeat_interval);
  } else if (const auto* assignment = std::get_if<Assignment>(&event)) {
    LogAssignment(*assignment);
    tables_.Take(*assignment);
    ranks_.Take(*assignment);
    Feed(core::AssignmentReceived{*assignment});
  } else if (const auto* order = std::get_if<CheckpointOrder>(&event)) {
    station_->Take(*order);
  } else if (const auto* order = std::get_if<LinkTry>(&event)) {
    links_.Try(*order);
  } else if (const auto* order = std::get_if<wire::EvidenceOrder>(&event)) {
    starter_.List();
    evidence_.Ask({order->generation, order->round, ranks_.Watched(order->generation)});
  } else if (const auto* rings = std::get_if<wire::RingsWanted>(&event)) {
    ring_desk_.Ask(*rings);
  }
}

void AgentLoop::OnRefusal(const wire::Refusal& refusal) {
  LogError("refused", {{"code", refusal.code}, {"what", refusal.what}, {"why", refusal.why}});
  if (refusal.retry) return;  // the stream reconnects by itself
  SaveProblem(setup_.files, refusal);
  Feed(RefusedBy(refusal, setup_.spec.job.timers.stop_grace));
}

// The job's newest step goes to storage under a rescue of that term, and the job ends here.
void AgentLoop::OnRescue(uint64_t term) {
  bond_.Raise(term);
  SaveProblem(setup_.files, EndedByRescue());
  Feed(RescuedLeave(setup_.spec.job.timers.stop_grace));
}

void AgentLoop::Register() {
  NodeReport report = setup_.identity;
  report.store_port = store_port_.port();
  report.task_ports = ranks_.task_ports();
  report.generation = machine_.carried_out();
  report.ranks = machine_.RanksAt(MonotonicNow());
  report.check = checks_.state();
  if (HasHostCheck(setup_)) report.bulk = station_->bulk_address();
  told_.Reset(machine_.Ranks());
  Tell(bond_.Registration(std::move(report)));
}

void AgentLoop::OnStarterReady(const StarterHello& hello) {
  LogStarter(hello);
  starter_delay_ns_ = 0;
  ranks_.set_starter_is_there(true);
  // Look again: the starter may have carried out an earlier agent's order since the first look. Now
  // it knows this agent and does so no more.
  FindRanks(/*with_ended=*/false);
  // Asks for exits that happened while no agent was connected.
  if (!ranks_.is_empty()) starter_.List();
  Feed(core::StarterReady{});
}

void AgentLoop::OnStarterLost(const std::string& why) {
  LogWarning("starter_lost", {{"why", why}});
  starter_delay_ns_ = std::clamp(starter_delay_ns_ * 2, kStarterDelayNs, kStarterDelayMaxNs);
  spawning_.clear();
  ranks_.OnStarterLost();
  Feed(core::StarterLost{why});
  FindRanks(/*with_ended=*/false);
}

void AgentLoop::OnSpawned(const StarterSpawned& spawned) {
  auto found = spawning_.extract(spawned.id);
  if (found.empty()) return;
  const Spawning& spawning = found.mapped();
  LogSpawned(spawning.rank, spawning.generation, spawned);
  RankReport report;
  report.generation = spawning.generation;
  report.rank = spawning.rank;
  report.local_rank = spawning.local_rank;
  report.pid = spawned.pid;
  // Before the machine, whose answer may be a signal to this rank.
  ranks_.Add(report, spawned.start_time_ticks);
  Feed(core::RankSpawned{spawning.local_rank, spawning.generation, spawned.pid});
  if (start_watch_timer_ == 0) {
    start_watch_timer_ =
        reactor_->CallAt(MonotonicNs() + kStartWatchNs, [this] { OnStartWatch(); });
  }
}

void AgentLoop::OnSpawnFailed(uint64_t id, const std::string& why) {
  auto found = spawning_.extract(id);
  if (found.empty()) return;
  LogError("spawn_failed", {{"rank", found.mapped().rank}, {"why", why}});
  Feed(core::SpawnFailed{found.mapped().local_rank, found.mapped().generation, why});
}

void AgentLoop::OnSignal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return;
  core::LeaveAsked leave = ReadLeaveSignal(info, MonotonicNow(), &stop_asks_);
  leave.grace = setup_.spec.job.timers.stop_grace;
  LogInfo("leave_asked", {{"why", leave.why}, {"signal", leave.signal}, {"force", leave.force}});
  Feed(leave);
}

void AgentLoop::OnHeartbeat() {
  heartbeat_timer_ = 0;
  const int64_t now = MonotonicNs();
  beats_.Came(now);
  ArmHeartbeat();
  Feed(core::ProgressRead{ranks_.ReadProgress()});
  SendHeartbeat();
  if (now < trim_due_ns_) return;
  ranks_.TendLogs();
  trim_due_ns_ = now + kTrimEveryNs;
}

void AgentLoop::OnStartWatch() {
  start_watch_timer_ = 0;
  const std::vector<RankReport> ranks = ranks_.ReadProgress();
  const auto steps = [](const RankReport& r) { return r.state == RankReport::State::kStepping; };
  if (!std::all_of(ranks.begin(), ranks.end(), steps)) {
    start_watch_timer_ =
        reactor_->CallAt(MonotonicNs() + kStartWatchNs, [this] { OnStartWatch(); });
  }
  if (!told_.HasNewState(ranks)) return;
  Feed(core::ProgressRead{ranks});
  SendHeartbeat();
}

void AgentLoop::ArmHeartbeat() {
  heartbeat_timer_ = reactor_->CallAt(beats_.Next(MonotonicNs()), [this] { OnHeartbeat(); });
}

void AgentLoop::SendHeartbeat() {
  if (!is_linked_) return;
  wire::Heartbeat beat;
  beat.generation = machine_.carried_out();
  beat.store_port = store_port_.port();
  beat.loop_delay = beats_.TakeLateness();
  beat.awaits_starter = machine_.awaits_starter();
  beat.ranks = told_.TakeNews(machine_.Ranks());
  ranks_.ReadRings(&beat.samples, &beat.times);
  beat.memory = ranks_.TakeMemory();
  Tell(std::move(beat));
}

void AgentLoop::ArmDeadline() {
  reactor_->Cancel(deadline_timer_);
  const Instant deadline = machine_.NextDeadline();
  deadline_timer_ = deadline.is_max() ? 0 : reactor_->CallAt(deadline.nanoseconds(), [this] {
    Feed(core::AgentTimePassed{});
  });
}

void AgentLoop::Do(const core::StartStarter& action) {
  ranks_.set_starter_is_there(false);
  spawning_.clear();  // the starter is replaced, so its answers do not come
  if (action.fresh) starter_salt_ = Concat(setup_.files.node, ".", MonotonicNs());
  StarterPlace place = StarterPlaceOf(setup_, starter_salt_);
  reactor_->Cancel(starter_timer_);  // it would connect to the starter before this one
  if (starter_delay_ns_ == 0) return starter_.Connect(std::move(place));
  const int64_t at = MonotonicNs() + starter_delay_ns_;
  starter_timer_ = reactor_->CallAt(at, [this, place = std::move(place)] {
    if (!starter_.is_ready()) starter_.Connect(place);
  });
}

void AgentLoop::Do(const core::SpawnRank& action) {
  const uint64_t id = next_spawn_id_++;
  spawning_[id] = {action.local_rank, action.assignment.generation, action.rank};
  if (!starter_.Spawn(id, ranks_.PrepareSpawn(action))) {
    reactor_->Post([this, id] { OnSpawnFailed(id, "no starter is connected"); });
  }
}

void AgentLoop::Do(const core::SignalRank& action) {
  if (leases_ != nullptr) leases_->NoteKilled(action.pid);
  ranks_.Signal(action.local_rank, action.pid, action.signal);
}

void AgentLoop::Do(const core::HoldStorePort&) {
  if (const auto held = store_port_.Hold(); !held.ok()) LogError("store_port", {{"why", held}});
  Feed(core::StorePortHeld{store_port_.port()});
}

void AgentLoop::Do(const core::ReportRankExit& action) {
  LogExited(action.rank);
  told_.Forget(action.rank.local_rank);
  Tell(wire::RankEnd{action.rank, ranks_.TakeLastTimes(action.rank)});
}

void AgentLoop::Do(const core::ExitAgent& action) {
  LogInfo("agent_exits", {{"code", action.exit_code}, {"why", action.reason}});
  exit_code_ = action.exit_code;
  has_ended_ = true;
  if (ranks_.is_empty()) evidence_.rings().set_is_over(setup_.files);
}

void AgentLoop::MayExit() {
  // Exits only when the newest step is in storage, or the machine gives up hope for it.
  if (!has_ended_ || !station_->MayEnd(machine_.HasHope(MonotonicNow()))) return;
  if (station_->is_over()) station_->CleanUp();
  ranks_.TendLogs();  // of ranks that ended between two trims
  // An agent that the master refused, or that was without a master for too long, has no such order.
  const Assignment& last = machine_.assignment();
  leave_ = {last.kind == Assignment::Kind::kLeave, last.is_over};
  if (leave_.has_left) checks_.Forget();
  saved_.rescued = station_->rescued();
  SaveJson();
  starter_.Bye();
  if (stream_ != nullptr) stream_->Flush(Duration::Seconds(1));
  reactor_->Stop();
}

void AgentLoop::NoteCarriedOut() {
  const AgentProgress now{machine_.newest_used(), bond_.term(),
                          station_ == nullptr ? saved_.checkpoints : station_->Directory(), ""};
  if (std::exchange(saved_, now) != now) SaveJson();
  if (station_ != nullptr) station_->SetGeneration(machine_.carried_out());
}

}  // namespace

absl::StatusOr<int> RunAgent(const AgentOptions& options) {
  BlockAgentSignals();
  ASSIGN_OR_RETURN(AgentSetup setup, PrepareAgent(options));
  ASSIGN_OR_RETURN(auto page, OpenPage(&setup));
  ASSIGN_OR_RETURN(auto reactor, Reactor::Create());
  const std::unique_ptr<wire::Relay> relay = StartRelay(setup);
  AgentLoop loop(std::move(setup), std::move(reactor), std::move(page));
  RETURN_IF_ERROR(loop.Begin());
  const int exit_code = loop.Run();
  if (relay != nullptr && loop.is_job_over()) relay->WaitUntilMasterHasGone();
  return exit_code;
}

}  // namespace paceline::agent
