#include "paceline/sim/world.h"

#include <algorithm>
#include <utility>

#include "paceline/sim/fault/fault.h"
#include "paceline/sim/planned.h"

namespace paceline::sim {
namespace {

constexpr Duration kLook = Duration::Milliseconds(500);
constexpr uint32_t kWellLooks = 6;
constexpr uint64_t kTasksPerInstantMax = 200'000;
constexpr uint64_t kTasksMax = 20'000'000;

}  // namespace

SimWorld::SimWorld(const Options& options, std::FILE* log)
    : options_(options),
      prng_(options.seed ^ 0x5157'0a7b'11d5'c0deULL),
      trace_(log),
      network_(queue_, prng_.Fork(), options.link),
      workload_(*this),
      master_(std::make_unique<Master>(*this, 0)) {
  for (uint32_t i = 0; i < options_.node_count + options_.late_node_count; ++i) AddNode();
  for (const CheckEntry& entry : AllChecks()) checks_.push_back(entry.make());
}

Node& SimWorld::AddNode(const std::string& name) {
  const uint32_t index = node_count();
  nodes_.push_back(
      std::make_unique<Node>(*this, index, name.empty() ? "node" + std::to_string(index) : name));
  return *nodes_.back();
}

void SimWorld::Fail(std::string_view check, std::string what) {
  if (violation_.has_value()) return;
  trace_.Add(queue_.now(), "check", "FAILED", 0, what);
  violation_ = Violation{std::string(check), std::move(what), queue_.now()};
}

// ---- the course of a run ----

void SimWorld::PowerOnAll() {
  master_->Start();
  if (!options_.heartbeats_each) CreditHeartbeats();
  for (uint32_t i = 0; i < options_.node_count; ++i) {
    const Duration wait = Duration::Milliseconds(prng_.Between(1, 500));
    queue_.After(wait, [this, i] { nodes_[i]->PowerOn(); });
  }
}

// More often than silence is checked, so that a node which is not credited is missed in time.
void SimWorld::CreditHeartbeats() {
  core::NodesHeard heard;
  for (const auto& node : nodes_) {
    AgentHost* agent = node->agent();
    if (agent == nullptr || !agent->is_resting() || agent->is_frozen()) continue;
    if (network_.IsCut(node->host(), kMasterHost)) continue;
    const Network::Ends* ends = network_.EndsOf(agent->connection());
    if (ends != nullptr && ends->master_incarnation != master_->incarnation()) continue;
    if (!network_.IsOpen(agent->connection(), End::kMaster)) {
      // Its next heartbeat would fail, which tells it of an end that it missed.
      agent->StopResting();
      continue;
    }
    heard.nodes.push_back(agent->node_id());
  }
  if (!heard.nodes.empty() && master_->is_on()) master_->Feed(heard);
  queue_.After(options_.spec.timers.lost_after * 2 / 5, [this] { CreditHeartbeats(); });
}

void SimWorld::StrikeAll() {
  for (const Strike& strike : options_.strikes) {
    queue_.At(strike.at, [this, strike] {
      if (is_healed_ || master_->has_finished()) return;
      const Fault& fault = AllFaults()[strike.fault];
      trace_.Add(queue_.now(), "fault", fault.name);
      Prng prng(strike.seed);
      fault.strike(*this, prng);
      workload_.Refresh();
    });
  }
}

void SimWorld::RunOne() {
  queue_.RunNext();
  retired_.clear();
}

void SimWorld::RunUntil(Instant until) {
  while (!queue_.empty() && queue_.next_at() <= until && !has_failed()) RunOne();
}

Outcome SimWorld::Run() {
  PowerOnAll();
  StrikeAll();
  queue_.At(Instant() + options_.chaos, [this] { Heal(); });
  Instant instant;
  uint64_t at_instant = 0;
  while (!queue_.empty() && !is_done_ && !has_failed()) {
    RunOne();
    at_instant = queue_.now() == instant ? at_instant + 1 : 0;
    instant = queue_.now();
    if (at_instant > kTasksPerInstantMax || queue_.ran() > kTasksMax) {
      Fail("bounded", "the queue does not get on: too many tasks, now at one instant " +
                          std::to_string(at_instant));
    }
  }
  Outcome outcome;
  outcome.violation = violation_;
  outcome.trace_hash = trace_.hash();
  outcome.last_random = prng_.Next();
  outcome.task_count = queue_.ran();
  outcome.record_count = master_->durable().size();
  outcome.world_count = WorldNumber(master_->job().state().generation);
  outcome.end = queue_.now();
  outcome.end_reason = EndReason();
  return outcome;
}

void SimWorld::Heal() {
  is_healed_ = true;
  trace_.Add(queue_.now(), "world", "heal");
  network_.MendAll();
  EndFormer();
  master_->FreeDisk();
  storage_.is_full = storage_.is_away = storage_.is_stalled = false;
  master_->CrashAfterRecords(0);
  port_takings_ = 0;
  master_->Thaw();
  ReleaseMaster();
  StartLauncher(*nodes_.front(), true);
  unwatched_.clear();
  for (const auto& node : nodes_) {
    if (node->is_twin()) {
      node->PowerOff(false);
    } else if (node->is_on()) {
      node->Thaw();
      node->ResumeStarts();
      node->Restart();
      node->Revive();
    } else if (node->boot_count() > 0) {
      node->PowerOn();
    }
  }
  workload_.Refresh();
  queue_.After(LookInterval(), [this] { Watch(); });
}

// Long enough for one step.
Duration SimWorld::LookInterval() const { return std::max(kLook, options_.step_time * 3 / 2); }

void SimWorld::Watch() {
  ForEachCheck([this](Check& check) { check.Look(*this); });
  if (has_failed()) return;
  const std::string trouble = Trouble();
  well_count_ = trouble.empty() ? well_count_ + 1 : 0;
  if (well_count_ >= kWellLooks) {
    ForEachCheck([this](Check& check) { check.AtQuiet(*this); });
    is_done_ = true;
    return;
  }
  if (queue_.now() >= Instant() + options_.chaos + options_.quiet_bound) {
    Fail("liveness", trouble + "; the job says: " + master_->job().Pending());
    return;
  }
  queue_.After(LookInterval(), [this] { Watch(); });
}

// ---- is it well? ----

std::vector<uint32_t> SimWorld::UsableNodes() {
  std::vector<uint32_t> usable;
  for (const auto& node : nodes_) {
    if (!node->is_on() || node->agent() == nullptr) continue;
    if (node->is_twin() || node->is_small() || node->is_silent()) continue;
    bool is_usable = true;
    for (const auto& [id, state] : master_->job().state().nodes) {
      if (state.name != node->name()) continue;
      is_usable = state.status != core::NodeState::Status::kEvicted;
    }
    if (is_usable) usable.push_back(node->index());
  }
  return usable;
}

bool SimWorld::HoldsModel(std::vector<uint32_t> nodes, const core::WorldBounds& bounds) const {
  if (!options_.plan.is_used || !master_->job().state().plan.has_value()) return true;
  std::stable_sort(nodes.begin(), nodes.end(), [this](uint32_t a, uint32_t b) {
    return DevicesOf(options_, a, true).memory > DevicesOf(options_, b, true).memory;
  });
  nodes.resize(core::WorldSize(bounds, nodes.size()));
  return Holds(options_, nodes);
}

bool SimWorld::IsLinked(const Node& node) const {
  const AgentHost* agent = node.agent();
  const bool is_awake = agent != nullptr && !agent->is_frozen() && !agent->has_ended();
  if (!is_awake || !agent->is_linked()) return false;
  const Network::Ends* ends = network_.EndsOf(agent->connection());
  const bool is_to_it = ends != nullptr && ends->master_incarnation == master_->incarnation();
  return is_to_it && network_.IsOpen(agent->connection(), End::kMaster);
}

const Node* SimWorld::SilentMember() const {
  for (const auto& node : nodes_) {
    if (!node->is_silent()) continue;
    const bool is_spoken_for =
        std::any_of(nodes_.begin(), nodes_.end(), [&node](const auto& other) {
          return other->name() == node->name() && other->is_on() && !other->is_silent();
        });
    if (is_spoken_for) continue;
    for (const auto& [id, state] : master_->job().state().nodes) {
      if (state.IsMember() && state.name == node->name()) return node.get();
    }
  }
  return nullptr;
}

std::string SimWorld::TroubleOfProcesses(Generation generation) {
  for (const auto& node : nodes_) {
    if (node->is_silent()) continue;  // its processes cannot be reached
    for (const auto& [pid, process] : node->processes()) {
      if (process.generation == generation) continue;
      return node->name() + " still has rank " + ToString(process.rank) + " of generation " +
             ToString(process.generation);
    }
  }
  return {};
}

// Too few nodes are there, and the job must say so.
std::string SimWorld::TroubleOfWaiting() {
  const std::string pending = master_->job().Pending();
  if (!pending.starts_with("waits for ")) return "too few nodes are there, but it " + pending;
  return TroubleOfProcesses(Generation());
}

std::string SimWorld::Trouble() {
  if (master_->has_finished()) return TroubleOfProcesses(Generation());
  if (!master_->is_on()) return "the master is down";
  if (const Node* silent = SilentMember()) {
    return silent->name() + " is silent for ever and still counts as a member";
  }
  const core::JobState& state = master_->job().state();
  // A job whose ranks have their own parameters needs as many ranks as before.
  const core::WorldBounds bounds = state.NextBounds();
  const uint32_t needed = (bounds.nodes_min + bounds.unit - 1) / bounds.unit * bounds.unit;
  if (!state.world.has_value()) {
    const std::vector<uint32_t> usable = UsableNodes();
    const bool can_form = usable.size() >= needed && HoldsModel(usable, bounds);
    if (!can_form) return TroubleOfWaiting();
    return "no world, though " + std::to_string(usable.size()) + " nodes are there";
  }
  const int64_t step = workload_.StepOf(state.world->generation);
  const int64_t before = std::exchange(step_before_, step);
  if (!workload_.IsStepping(state.world->generation)) {
    return "generation " + ToString(state.world->generation) + " does not step";
  }
  if (step <= before) return "no step since the last look";
  if (state.phase != core::Phase::kRunning) {
    return "the ranks step, but the job is " + std::string(core::PhaseName(state.phase));
  }
  const bool saves =
      options_.saves.is_used && options_.saves.terms.policy.kind != PersistPolicy::Kind::kAuto;
  if (saves && !has_committed_) return "no checkpoint got to storage since the healing";
  if (std::string trouble = TroubleOfSize(); !trouble.empty()) return trouble;
  return TroubleOfProcesses(state.world->generation);
}

std::string SimWorld::EndReason() {
  if (master_->has_finished()) {
    return "finished with " + std::to_string(master_->exit_code()) + ": " +
           master_->job().state().final_reason;
  }
  return master_->job().Pending();
}

std::string SimWorld::DomainOf(const Node& node) const {
  if (options_.local_platform) return "machine";
  return "rack" + std::to_string(node.index() / options_.saves.nodes_per_domain);
}

void SimWorld::SyncSaves(const Node& node) {
  if (!options_.saves.is_used) return;
  workload_.SyncSaves(options_.local_platform ? nullptr : &node);
}

// ---- what the launcher does ----

void SimWorld::AgentDied(uint32_t index, int32_t agent_pid) {
  Node& node = *nodes_[index];
  queue_.After(options_.spec.timers.settle, [this, &node, agent_pid] {
    const bool is_watched = !unwatched_.contains(node.index());
    if (!is_watched || !node.is_on() || node.agent() != nullptr) return;
    if (options_.local_platform && node.processes().empty()) Witness(node.name(), agent_pid);
    const Duration start =
        options_.spec.timers.respawn_delay + Duration::Milliseconds(prng_.Between(10, 80));
    queue_.After(start, [&node] { node.StartAgent(); });
  });
}

void SimWorld::MasterIsUp() {
  // A launcher repeats its reports to a new master, because the old one may not have recorded them.
  queue_.After(Duration::Milliseconds(20), [this, incarnation = master_->incarnation()] {
    if (!master_->is_on() || master_->incarnation() != incarnation) return;
    const std::vector<core::NodeGone> again = witnessed_;
    for (const core::NodeGone& gone : again) master_->Feed(gone);
    TellNotices();
    if (stop_.has_value()) master_->Feed(*stop_);
  });
}

bool SimWorld::EndsInAHurry() const {
  return options_.canary == Canary::kHurriedEnd ||
         (options_.canary == Canary::kTwiceIsNow && is_stop_repeated_);
}

void SimWorld::RequestStop(const core::StopRequested& stop) {
  StopAsked(std::nullopt, stop.grace, stop.force);
  is_stop_repeated_ = stop_.has_value();
  const bool was_forced = is_stop_repeated_ && stop_->force;
  stop_ = stop;
  stop_->force = stop.force || was_forced;
  if (is_stop_repeated_ && options_.canary == Canary::kRepeatForces) stop_->force = true;
  if (master_->is_on()) master_->Feed(*stop_);
}

void SimWorld::MasterDied(uint64_t incarnation) {
  network_.CloseAll(incarnation);
  if (master_->has_finished()) {
    if (!is_master_unwatched_) EndWhatIsLeft();
    return;
  }
  const Timers& timers = options_.spec.timers;
  Duration wait = timers.respawn_delay;
  for (uint32_t i = 0; i < std::min(master_respawns_, 8u) && is_healed_ == false; ++i) {
    wait = std::min(wait * 2, timers.respawn_delay_max);
  }
  ++master_respawns_;
  queue_.After(wait + Duration::Milliseconds(prng_.Between(20, 200)), [this] {
    if (!is_master_held_ && !is_master_unwatched_) master_->Start();
  });
}

// The launcher ends remaining processes on its machine.
void SimWorld::EndWhatIsLeft() {
  if (!options_.local_platform) return;
  for (const auto& node : nodes_) node->PowerOff(false);
}

void SimWorld::EndLauncher(const Node& node, bool is_masters) {
  trace_.Add(queue_.now(), node.name(), "launcher_dies", is_masters ? 1 : 0);
  is_master_unwatched_ = is_master_unwatched_ || is_masters;
  unwatched_.insert(node.index());
  if (!options_.local_platform) return;
  for (const auto& one : nodes_) unwatched_.insert(one->index());
}

void SimWorld::StartLauncher(Node& node, bool is_masters) {
  if (unwatched_.empty() && !is_master_unwatched_) return;
  trace_.Add(queue_.now(), node.name(), "launcher_starts", is_masters ? 1 : 0);
  if (is_masters && std::exchange(is_master_unwatched_, false)) {
    if (master_->has_finished() && !master_->is_on()) return EndWhatIsLeft();
    if (!is_master_held_) master_->Start();
  }
  for (const auto& one : nodes_) {
    const bool is_its = options_.local_platform || one->index() == node.index();
    if (!is_its || unwatched_.erase(one->index()) == 0) continue;
    one->Revive();
  }
}

void SimWorld::HoldMaster() {
  is_master_held_ = true;
  master_->Crash();
}

void SimWorld::ReleaseMaster() {
  if (std::exchange(is_master_held_, false) && !is_master_unwatched_) master_->Start();
}

// ---- messages ----

void SimWorld::Tell(ConnectionId connection, core::Event event) {
  CallMaster(connection, [connection, event = std::move(event)](Master& master, uint64_t life) {
    master.Receive(life, connection, event);
  });
}

void SimWorld::CallMaster(ConnectionId connection,
                          std::function<void(Master&, uint64_t life)> task) {
  const Network::Ends* ends = network_.EndsOf(connection);
  if (ends == nullptr) return;
  network_.Send(connection, End::kMaster,
                [this, life = ends->master_incarnation, task = std::move(task)] {
                  Master* master = MasterOf(life);
                  if (master != nullptr) task(*master, life);
                });
}

uint32_t SimWorld::CountAgents() const {
  return static_cast<uint32_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const auto& node) {
    return node->agent() != nullptr && !node->is_twin();
  }));
}

void SimWorld::TellSamples(ConnectionId connection, NodeId node, std::vector<RankSample> samples,
                           std::vector<RankTimes> times) {
  CallMaster(connection, [node, samples = std::move(samples), times = std::move(times)](
                             Master& master, uint64_t life) {
    master.ReceiveSamples(life, node, samples, times);
  });
}

void SimWorld::SendToAgent(ConnectionId connection,
                           std::function<void(AgentHost&, ConnectionId)> task) {
  const Network::Ends* ends = network_.EndsOf(connection);
  if (ends == nullptr) return;
  const uint32_t index = ends->agent_host - 1;
  network_.Send(
      connection, End::kAgent,
      [this, index, incarnation = ends->agent_incarnation, connection, task = std::move(task)] {
        AgentHost* agent = nodes_[index]->AgentOf(incarnation);
        if (agent != nullptr) task(*agent, connection);
      });
}

// ---- checks ----

void SimWorld::Decided(Instant now, const core::Event& event, const core::Actions& actions) {
  const Turn turn{now, event, actions};
  ForEachCheck([&](Check& check) { check.Decided(*this, turn); });
}

void SimWorld::Persisted(const core::Record& record) {
  if (std::holds_alternative<core::CheckpointCommitted>(record.fact)) has_committed_ = is_healed_;
  ForEachCheck([&](Check& check) { check.Persisted(*this, record); });
}

void SimWorld::MasterRestored() {
  ForEachCheck([&](Check& check) { check.Restored(*this); });
}

void SimWorld::Ran(const core::Effect& effect, RecordSeq decided) {
  ForEachCheck([&](Check& check) { check.Ran(*this, effect, decided); });
}

void SimWorld::SpawnOrdered(uint32_t node, const Assignment& assignment) {
  ForEachCheck([&](Check& check) { check.SpawnOrdered(*this, node, assignment); });
}

void SimWorld::ProcessStarted(const RankProcess& process) {
  trace_.Add(queue_.now(), nodes_[process.node]->name(), "rank_start",
             process.generation.value() * 10'000 + process.rank.value());
  ForEachCheck([&](Check& check) { check.Started(*this, process); });
}

void SimWorld::ProcessEnded(const RankProcess& process, const ExitCause& cause) {
  trace_.Add(queue_.now(), nodes_[process.node]->name(), "rank_end",
             process.generation.value() * 10'000 + process.rank.value(), cause.headline);
  ForEachCheck([&](Check& check) { check.Ended(*this, process, cause); });
}

void SimWorld::StopAsked(std::optional<uint32_t> node, Duration grace, bool force) {
  ForEachCheck([&](Check& check) { check.StopAsked(*this, node, grace, force); });
}

void SimWorld::Signalled(const Node& node, int32_t pid, int signal) {
  const auto found = node.processes().find(pid);
  if (found == node.processes().end()) return;
  ForEachCheck([&](Check& check) { check.Signalled(*this, found->second, signal); });
}

}  // namespace paceline::sim
