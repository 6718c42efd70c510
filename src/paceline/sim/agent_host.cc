#include "paceline/sim/agent_host.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "paceline/base/mark.h"
#include "paceline/sim/node.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

constexpr Duration kAdmissionTimeout = Duration::Seconds(5);
constexpr uint32_t kFirstPort = 20'000;
constexpr int kRefusedExitCode = 4;

}  // namespace

AgentHost::AgentHost(SimWorld& world, Node& node, uint64_t incarnation)
    : world_(world),
      node_(node),
      incarnation_(incarnation),
      pid_(world.NextPid()),
      machine_(world.options().spec, node.saved_generation()),
      station_(world, node, *this),
      store_port_(kFirstPort + world.NextPort()),
      retry_delay_(world.options().spec.timers.reconnect_delay) {}

void AgentHost::WhenAwake(Task task) {
  if (has_ended_) return;
  if (is_frozen_) {
    backlog_.push_back(std::move(task));
  } else {
    task();
  }
}

void AgentHost::Later(Duration delay, std::function<void(AgentHost&)> task) {
  world_.queue().After(delay, [&node = node_, incarnation = incarnation_, task = std::move(task)] {
    AgentHost* agent = node.AgentOf(incarnation);
    if (agent == nullptr || agent->has_ended_) return;
    if (agent->is_frozen_) {
      agent->backlog_.push_back([agent, task] { task(*agent); });
    } else {
      task(*agent);
    }
  });
}

void AgentHost::Start() {
  for (const RankReport& rank : node_.Found()) {
    Feed(core::RankFound{rank, node_.restart_count_of(rank.pid)});
  }
  Feed(core::StorePortHeld{store_port_});
  if (world_.options().checks.is_used) RunChecks();
  if (world_.options().saves.is_used) station_.OpenToPeers();
  Connect();
  ScheduleBeat();
  const Options& options = world_.options();
  if (options.pace.is_told || options.phases.is_told) ScheduleSamples();
}

void AgentHost::Die(bool is_silent) {
  has_ended_ = true;
  backlog_.clear();
  station_.peers().Drop();
  if (connection_ == ConnectionId()) return;
  if (is_silent) {
    world_.network().Abandon(connection_, End::kAgent);
  } else {
    world_.network().Close(connection_, End::kAgent);
  }
}

void AgentHost::Thaw() {
  if (!is_frozen_) return;
  is_frozen_ = false;
  StopResting();
  while (!backlog_.empty() && !is_frozen_ && !has_ended_) {
    const Task task = std::move(backlog_.front());
    backlog_.pop_front();
    task();
  }
}

// ---- the connection ----

void AgentHost::ConnectLater() {
  if (is_connecting_) return;
  is_connecting_ = true;
  const Duration wait =
      retry_delay_ + Duration::Microseconds(world_.prng().Between(
                         0, std::max<int64_t>(1, retry_delay_.microseconds() / 4)));
  retry_delay_ = std::min(retry_delay_ * 2, world_.options().spec.timers.reconnect_delay_max);
  Later(wait, [](AgentHost& agent) {
    agent.is_connecting_ = false;
    agent.Connect();
  });
}

void AgentHost::Connect() {
  if (connection_ != ConnectionId() || is_connecting_) return;
  is_connecting_ = true;
  Network& network = world_.network();
  const HostIndex host = node_.host();
  const bool is_cut = network.IsCut(host, kMasterHost) || network.IsCut(kMasterHost, host);
  const Duration wait = is_cut ? Duration::Milliseconds(world_.prng().Between(500, 2'000))
                               : network.DrawLatency(host) * 2;
  Later(wait, [is_cut](AgentHost& agent) {
    agent.is_connecting_ = false;
    Master& master = agent.world_.MasterToDial();
    if (is_cut || !master.is_on()) {
      agent.ConnectLater();
      return;
    }
    agent.Register(master);
  });
}

void AgentHost::Register(Master& master) {
  SimWorld& world = world_;
  Node& node = node_;
  const uint64_t incarnation = incarnation_;
  connection_ = world.network().Open(
      Network::Ends{.agent_host = node.host(),
                    .agent_incarnation = incarnation,
                    .master_incarnation = master.incarnation(),
                    .agent_eof =
                        [&node, incarnation](ConnectionId id) {
                          AgentHost* agent = node.AgentOf(incarnation);
                          if (agent != nullptr) agent->OnEndOfStream(id);
                        },
                    .master_eof = [&master, life = master.incarnation()](
                                      ConnectionId id) { master.OnEndOfStream(life, id); }});
  const ConnectionId connection = connection_;
  ReadProgress();
  sent_.clear();
  core::NodeRegistered event;
  event.connection = connection;
  event.report.name = node.name();
  event.report.boot_id = node.boot_id();
  event.report.agent_incarnation = incarnation;
  event.report.agent_pid = pid_;
  event.report.address = "10.0.0." + std::to_string(node.index());
  event.report.slots = world.options().spec.nproc_per_node - (node.is_small() ? 1 : 0);
  event.report.store_port = store_port_;
  event.report.check = ToldCheck();
  event.report.bulk = Bulk();
  event.report.version_major = 0;
  event.report.version_minor = 1;
  const bool hides_term = world.options().canary == Canary::kTrustOldMaster;
  event.report.term = hides_term ? 0 : node.terms().seen();
  event.report.generation = machine_.carried_out();
  event.report.ranks = machine_.RanksAt(world.queue().now());
  for (const RankReport& rank : machine_.Ranks()) sent_[rank.local_rank] = rank;
  world.CallMaster(connection, [event, offer = copy_.offer()](Master& master, uint64_t life) {
    master.OnRegister(life, event, offer);
  });
  Later(kAdmissionTimeout, [connection](AgentHost& agent) {
    if (agent.is_linked_ || agent.connection_ != connection) return;
    agent.world_.network().Close(connection, End::kAgent);
    agent.connection_ = ConnectionId();
    agent.ConnectLater();
  });
}

void AgentHost::OnAdmitted(ConnectionId connection, NodeId id, uint64_t term) {
  WhenAwake([this, connection, id, term] {
    if (connection != connection_) return;
    const uint64_t before = node_.terms().seen();
    const bool is_blind = world_.options().canary == Canary::kTrustOldMaster;
    if (!node_.terms().Admit(term) && !is_blind) {
      MARK("a node hangs up on an old master");
      retry_delay_ = world_.options().spec.timers.reconnect_delay_max;
      world_.network().Close(connection, End::kAgent);
      return Unlink("a newer master is known");
    }
    world_.MasterMet(node_, term);
    const bool forgets = term > before && world_.options().canary == Canary::kForgetImages;
    if (forgets) node_.shelf().Clear();
    node_id_ = id;
    retry_delay_ = world_.options().spec.timers.reconnect_delay;
    if (is_linked_) return;
    is_linked_ = true;
    Feed(core::MasterLinked{});
    TellPlan();
    TellCheck();
    if (world_.options().saves.is_used && !has_ended_) station_.Feed(core::StationLinked{});
  });
}

void AgentHost::OnOrder(ConnectionId connection, const CheckpointOrder& order) {
  WhenAwake([this, connection, order] {
    if (connection == connection_) station_.Feed(core::CheckpointOrdered{order});
  });
}

void AgentHost::Tell(const CheckpointReport& report) {
  if (connection_ == ConnectionId() || !is_linked_) return;
  world_.Tell(connection_, core::CheckpointReported{node_id_, connection_, report});
}

void AgentHost::TakePlan(PlanNote note) {
  WhenAwake([this, note = std::move(note)] {
    plan_ = note;
    TellPlan();
  });
}

void AgentHost::TellPlan() {
  if (connection_ == ConnectionId() || !is_linked_ || !plan_.has_value()) return;
  world_.Tell(connection_, core::PlanReported{node_id_, connection_, *plan_});
}

void AgentHost::NoteCarriedOut() {
  if (has_ended_) return;
  node_.SaveGeneration(machine_.newest_used());
  if (machine_.carried_out() == carried_out_) return;
  carried_out_ = machine_.carried_out();
  if (!world_.options().saves.is_used) return;
  world_.SyncSaves(node_);
  station_.Feed(core::GenerationCarriedOut{carried_out_});
}

void AgentHost::OnRefused(ConnectionId connection, bool may_retry) {
  WhenAwake([this, connection, may_retry] {
    if (connection != connection_) return;
    retry_delay_ = world_.options().spec.timers.reconnect_delay_max;
    is_refused_ = !may_retry;
    world_.network().Close(connection, End::kAgent);
    Unlink("refused");
    if (is_refused_) Feed(core::MasterRefused{"refused by the master", kRefusedExitCode});
  });
}

void AgentHost::OnJournalPiece(ConnectionId connection,
                               const JournalPiece<std::vector<core::Record>>& piece) {
  WhenAwake([this, connection, piece] {
    if (connection != connection_) return;
    copy_.Take(piece);
    world_.CallMaster(connection,
                      [connection, taken = copy_.taken()](Master& master, uint64_t life) {
                        master.OnHeld(life, connection, taken);
                      });
  });
}

void AgentHost::OnJournalWanted(ConnectionId connection, uint64_t from) {
  WhenAwake([this, connection, from] {
    if (connection != connection_) return;
    constexpr uint64_t kRecordsAPiece = 16;
    world_.CallMaster(connection, [connection, piece = copy_.Read(from, kRecordsAPiece)](
                                      Master& master, uint64_t life) {
      master.OnPiece(life, connection, piece);
    });
  });
}

void AgentHost::OnAssignment(ConnectionId connection, const Assignment& assignment, uint64_t term) {
  WhenAwake([this, connection, assignment, term] {
    if (connection != connection_) return;
    world_.Ordered(node_, term);
    obeys_ = term;
    if (world_.options().canary == Canary::kStaleAssignment) ActOnItAgain(assignment);
    node_.RaiseMemory(assignment.memory_limit);
    Feed(core::AssignmentReceived{assignment});
  });
}

// A canary: a late assignment is executed without comparing it with the newer one.
void AgentHost::ActOnItAgain(const Assignment& assignment) {
  Later(Duration::Seconds(2), [assignment](AgentHost& agent) {
    if (assignment.generation >= agent.machine_.assignment().generation) return;
    agent.machine_ = core::AgentMachine(agent.world_.options().spec);
    agent.Feed(core::StorePortHeld{agent.store_port_});
    agent.Feed(core::StarterReady{});
    agent.Feed(core::AssignmentReceived{assignment});
  });
}

void AgentHost::OnEvidenceOrder(ConnectionId connection, Generation generation, uint64_t round) {
  WhenAwake([this, connection, generation, round] {
    if (connection != connection_) return;
    // An agent looks twice at each process, with a pause between.
    Later(Duration::Milliseconds(500), [connection, generation, round](AgentHost& agent) {
      if (connection != agent.connection_) return;
      NodeEvidence evidence{.generation = generation,
                            .round = round,
                            .ranks = agent.world_.workload().Evidence(agent.node_, generation)};
      agent.world_.Tell(connection,
                        core::EvidenceCollected{agent.node_id_, connection, std::move(evidence)});
    });
  });
}

void AgentHost::OnEndOfStream(ConnectionId connection) {
  WhenAwake([this, connection] {
    if (connection == connection_) Unlink("the stream ended");
  });
}

void AgentHost::Unlink(const std::string& why) {
  StopResting();
  connection_ = ConnectionId();
  const bool was_linked = is_linked_;
  is_linked_ = false;
  if (was_linked) Feed(core::MasterUnlinked{why});
  if (!has_ended_ && !is_refused_) ConnectLater();
}

// ---- heartbeats ----

void AgentHost::ScheduleBeat() {
  const Duration interval = world_.options().spec.timers.heartbeat_interval;
  const Instant due = world_.queue().now() + interval;
  Later(interval, [due](AgentHost& agent) {
    agent.worst_lateness_ = std::max(agent.worst_lateness_, agent.world_.queue().now() - due);
    agent.Beat();
    agent.is_resting_ = agent.MayRest();
    if (!agent.is_resting_) agent.ScheduleBeat();
  });
}

void AgentHost::ScheduleSamples() {
  Later(Duration::Seconds(1), [](AgentHost& agent) {
    const Generation generation = agent.machine_.carried_out();
    const Options& told = agent.world_.options();
    Workload& workload = agent.world_.workload();
    std::vector<RankSample> samples;
    std::vector<RankTimes> times;
    if (told.pace.is_told) samples = workload.Samples(agent.node_, generation);
    if (told.phases.is_told) times = workload.Times(agent.node_, generation);
    if (agent.is_linked_ && (!samples.empty() || !times.empty())) {
      agent.world_.TellSamples(agent.connection_, agent.node_id_, std::move(samples),
                               std::move(times));
    }
    agent.ScheduleSamples();
  });
}

// True if all its ranks step and the master knows it. Rank 0's node does not rest, so that steps
// are reported.
bool AgentHost::MayRest() const {
  if (world_.options().heartbeats_each || !is_linked_) return false;
  const Assignment& assignment = machine_.assignment();
  if (assignment.kind != Assignment::Kind::kRun || assignment.first_rank == 0) return false;
  if (machine_.carried_out() != assignment.generation) return false;
  if (sent_.size() != assignment.rank_count) return false;
  for (const auto& [local_rank, rank] : sent_) {
    if (rank.generation != assignment.generation) return false;
    if (rank.state != RankReport::State::kStepping || rank.is_quiet) return false;
  }
  return true;
}

void AgentHost::StopResting() {
  if (!is_resting_) return;
  is_resting_ = false;
  ScheduleBeat();
}

void AgentHost::Beat() {
  if (!is_linked_) return;
  ReadProgress();
  SendReport();
}

void AgentHost::ReadProgress() {
  core::ProgressRead read;
  read.ranks.reserve(node_.processes().size());
  for (const auto& [pid, process] : node_.processes()) {
    read.ranks.push_back(node_.Report(process));
  }
  if (!read.ranks.empty()) Feed(std::move(read));
}

void AgentHost::SendReport() {
  if (connection_ == ConnectionId() || !is_linked_) return;
  core::NodeReported event;
  event.node = node_id_;
  event.connection = connection_;
  event.generation = machine_.carried_out();
  event.store_port = store_port_;
  event.loop_delay = std::exchange(worst_lateness_, Duration());
  event.awaits_starter = machine_.awaits_starter();
  event.ranks = machine_.Ranks();
  std::erase_if(event.ranks, [this](const RankReport& rank) {
    RankReport& sent = sent_[rank.local_rank];
    if (sent == rank) return true;
    sent = rank;
    return false;
  });
  world_.Tell(connection_, std::move(event));
}

// ---- the machine ----

void AgentHost::Feed(core::AgentEvent event) {
  if (has_ended_) return;
  if (is_frozen_) {
    backlog_.push_back([this, event = std::move(event)] { Feed(event); });
    return;
  }
  if (!std::holds_alternative<core::ProgressRead>(event)) StopResting();
  const std::vector<core::AgentAction> actions = machine_.Step(world_.queue().now(), event);
  for (const core::AgentAction& action : actions) {
    if (has_ended_) return;
    Perform(action);
  }
  NoteCarriedOut();
  MayExit();
  Rearm();
}

void AgentHost::Rearm() {
  const Instant deadline = machine_.NextDeadline();
  if (deadline.is_max() || deadline == armed_for_) return;
  armed_for_ = deadline;
  Later(deadline - world_.queue().now(), [deadline](AgentHost& agent) {
    if (agent.armed_for_ != deadline) return;
    agent.armed_for_ = Instant::Max();
    agent.Feed(core::AgentTimePassed{});
  });
}

void AgentHost::Perform(const core::AgentAction& action) {
  std::visit([this](const auto& one) { Do(one); }, action);
}

void AgentHost::AskToLeave(core::LeaveAsked asked) {
  world_.StopAsked(node_.index(), asked.grace, asked.force);
  const bool is_repeated = std::exchange(was_asked_, true);
  if (is_repeated && world_.options().canary == Canary::kRepeatForces) asked.force = true;
  Feed(std::move(asked));
}

void AgentHost::Do(const core::StartStarter& action) { node_.StartStarter(action.fresh); }

void AgentHost::Do(const core::SpawnRank& action) {
  world_.SpawnOrdered(node_.index(), action.assignment);
  node_.Spawn({incarnation_, action.local_rank, action.rank, action.assignment});
}

void AgentHost::Do(const core::SignalRank& action) {
  world_.Signalled(node_, action.pid, action.signal);
  node_.Signal(action.local_rank, action.pid, action.signal);
}

void AgentHost::Do(const core::ReleaseStorePort&) { store_port_ = 0; }

void AgentHost::Do(const core::HoldStorePort&) {
  store_port_ = kFirstPort + world_.NextPort();
  Later(Duration(),
        [port = store_port_](AgentHost& agent) { agent.Feed(core::StorePortHeld{port}); });
}

void AgentHost::Do(const core::ReportRankExit& action) {
  sent_.erase(action.rank.local_rank);  // the next report repeats it, as the agent's does
  if (connection_ == ConnectionId() || !is_linked_) return;
  core::RankExited event;
  event.node = node_id_;
  event.connection = connection_;
  event.rank = action.rank;
  if (world_.options().canary == Canary::kBlameNeighbour) {
    event.rank.rank = event.rank.rank.next();
    ++event.rank.local_rank;
  }
  world_.Tell(connection_, std::move(event));
}

void AgentHost::Do(const core::ReportNow&) {
  Later(Duration(), [](AgentHost& agent) { agent.Beat(); });
}

void AgentHost::Do(const core::TellLeaving& action) {
  if (connection_ == ConnectionId() || !is_linked_) return;
  world_.Tell(connection_, core::NodeLeaving{node_id_, connection_, action.why});
}

void AgentHost::Do(const core::ExitAgent& action) { exit_code_ = action.exit_code; }

void AgentHost::MayExit() {
  if (!exit_code_.has_value() || has_ended_) return;
  // Exits only when the newest step is in storage, or the machine gives up hope for it.
  const bool waits = !world_.EndsInAHurry() && machine_.HasHope(world_.queue().now());
  if (waits && station_.machine().IsAwaited()) return;
  has_ended_ = true;
  if (world_.options().saves.is_used) station_.CleanUp();
  world_.queue().After(Duration(), [&node = node_, incarnation = incarnation_, code = *exit_code_] {
    node.AgentExited(incarnation, code);
  });
}

void AgentHost::Do(const core::AgentNote& action) {
  world_.trace().Add(world_.queue().now(), node_.name(), "note", 0, action.text);
}

}  // namespace paceline::sim
