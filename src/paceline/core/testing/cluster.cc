#include "paceline/core/testing/cluster.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/model/version.h"

namespace paceline::core::testing {

namespace {

constexpr Duration kDelay = Duration::Milliseconds(1);
constexpr Duration kReconnect = Duration::Milliseconds(100);
constexpr Duration kFirstTrain = Duration::Milliseconds(100);
constexpr Duration kTermTime = Duration::Milliseconds(50);

ExitCause Signaled(int signal) {
  ExitCause cause;
  cause.kind = ExitCause::Kind::kSignaled;
  cause.code = signal;
  return cause;
}

}  // namespace

Cluster::Cluster(JobSpec spec) : spec_(std::move(spec)) {
  At(Instant() + kFirstTrain, [this] { Train(); });
}

void Cluster::At(Instant when, std::function<void()> action) {
  queue_.emplace(std::make_pair(std::max(when, now_), order_++), std::move(action));
}

void Cluster::RunUntil(Instant until) {
  while (!queue_.empty() && queue_.begin()->first.first <= until) {
    auto entry = queue_.extract(queue_.begin());
    now_ = entry.key().first;
    entry.mapped()();
  }
  now_ = until;
}

void Cluster::Print(const std::string& text) {
  char time[32];
  std::snprintf(time, sizeof time, "%9.3f  ", (now_ - Instant()).ToSecondsF());
  trace_.push_back(time + text);
}

// ---- master ----

void Cluster::StartMaster() {
  job_ = std::make_unique<Job>();
  for (const Record& record : journal_) job_->Restore(record);
  CHECK(job_->state() == folded_, "a restored job has the state of the lost one");
  master_up_ = true;
  ++master_life_;
  StepJob(JobSubmitted{spec_});
  StepJob(MasterStarted{.incarnation = master_life_,
                        .term = master_term_,
                        .history = std::exchange(history_, History::kOwn)});
}

void Cluster::LoseMaster(size_t uncopied) {
  KillMaster();
  journal_.resize(journal_.size() - std::min(uncopied, journal_.size()));
  folded_ = JobState();
  for (const Record& record : journal_) Apply(record, &folded_);
  Print("* its host is lost, and " +
        (journal_.empty()
             ? std::string("no node has a copy of its journal")
             : "nodes have a copy of its journal up to #" + ToString(folded_.last_seq)));
  ++master_term_;
  history_ = journal_.empty() ? History::kNone : History::kCopy;
}

void Cluster::KillMaster() {
  Print("* the master is killed");
  master_up_ = false;
  for (auto& [name, node] : nodes_) {
    if (node.connection.value() != 0) Break(node);
  }
}

void Cluster::CrashMaster() {
  KillMaster();
  journal_.resize(crash_at_);
  crash_at_ = 0;
  folded_ = JobState();
  for (const Record& record : journal_) Apply(record, &folded_);
  At(now_ + Duration::Milliseconds(200), [this] { StartMaster(); });
}

void Cluster::StallMaster(Duration length) {
  Print("* the master is stopped for " + ToString(length));
  stalled_until_ = now_ + length;
  At(stalled_until_, [this] {
    // The timer fires before the sockets are read, which is the worst order.
    auto held = std::move(stalled_);
    stalled_.clear();
    if (master_up_) StepJob(TimePassed{});
    for (auto& action : held) action();
  });
}

void Cluster::Tell(const Event& event) { StepJob(event); }

void Cluster::StepJob(const Event& event) {
  if (!master_up_) return;
  Actions actions = job_->Step(now_, event);
  for (const Record& record : actions.records) {
    Apply(record, &folded_);
    journal_.push_back(record);
    std::string causes;
    for (const RecordSeq cause : record.causes) causes += " #" + ToString(cause);
    Print("#" + ToString(record.seq) + " " + Sentence(record) +
          (causes.empty() ? "" : "  <-" + causes));
  }
  CHECK(folded_ == job_->state(), "journal_folds: the records alone give the state");
  if (crash_at_ != 0 && journal_.size() >= crash_at_) {
    CrashMaster();
    return;
  }
  for (const Note& note : actions.notes) Print("note: " + note.text);
  for (const Effect& effect : actions.effects) Run(effect);
  Wake();
}

void Cluster::Wake() {
  const Instant deadline = job_->NextDeadline();
  if (deadline.is_max()) return;
  At(deadline, [this, life = master_life_, deadline] {
    if (life != master_life_ || !master_up_ || job_->NextDeadline() != deadline) return;
    if (now_ >= stalled_until_) StepJob(TimePassed{});
  });
}

Cluster::Node* Cluster::Speaker(ConnectionId connection) {
  const auto found = connections_.find(connection.value());
  if (found == connections_.end()) return nullptr;
  Node& node = nodes_.at(found->second);
  return node.connection == connection ? &node : nullptr;
}

void Cluster::Run(const Effect& effect) {
  if (const auto* admit = std::get_if<AdmitNode>(&effect)) {
    if (Node* node = Speaker(admit->connection)) {
      Admit(*node, admit->node);
      ToAgent(*node, admit->connection, MasterLinked{});
    }
  } else if (const auto* refuse = std::get_if<RefuseNode>(&effect)) {
    Print("refused [" + refuse->code + "]: " + refuse->what + ", because " + refuse->why + "; " +
          refuse->fix);
    if (Node* node = Speaker(refuse->connection)) Refuse(*node, *refuse);
  } else if (const auto* assign = std::get_if<AssignNode>(&effect)) {
    const ConnectionId speaker = speakers_[assign->node];
    if (Node* node = Speaker(speaker)) {
      ToAgent(*node, speaker, AssignmentReceived{assign->assignment});
    }
  } else if (const auto* told = std::get_if<TellWish>(&effect)) {
    Obey(told->wish);
  } else if (const auto* finish = std::get_if<FinishJob>(&effect)) {
    Print("exit " + std::to_string(finish->exit_code));
    exit_code_ = finish->exit_code;
  }
}

// The platform starts the wished nodes that it has not started yet, half a second later.
void Cluster::Obey(const Wish& wish) {
  if (wish.intent != Wish::Intent::kRun) return;
  for (const auto& [index, incarnation] : wish.incarnations) {
    for (const auto& [name, node] : nodes_) {
      if (IndexOfNode(name) != index || wish.absent.contains(index)) continue;
      uint32_t& launched = launched_[name];
      if (launched >= incarnation) continue;
      launched = incarnation;
      Print("launch " + name + ", incarnation " + std::to_string(incarnation));
      Launch(name, incarnation);
    }
  }
}

// Each node has one host here: it starts the next incarnation when the one before has ended.
void Cluster::Launch(const std::string& name, uint32_t incarnation) {
  At(now_ + Duration::Milliseconds(500), [this, name, incarnation] {
    Node& started = nodes_.at(name);
    if (started.up) return Launch(name, incarnation);
    started.wished = spec_.is_placed ? incarnation : 0;
    StartAgent(started);
  });
}

// ---- agents ----

void Cluster::StartNode(const std::string& name, uint32_t slots) {
  Node& node = nodes_[name];
  node.name = name;
  if (node.calls_itself.empty()) node.calls_itself = name;
  node.slots = slots;
  StartAgent(node);
}

void Cluster::StartAgent(Node& node) {
  if (node.up) return;
  node.up = true;
  node.refused = false;
  node.incarnation = ++node.life;
  node.agent = std::make_unique<AgentMachine>(spec_);
  node.port = next_port_++;
  node.sent.clear();
  node.inbox.clear();
  node.outbox.clear();
  StepAgent(node, StorePortHeld{node.port});
  for (const auto& [local, ended] : node.ended) StepAgent(node, RankFound{ended, 0});
  for (const auto& [local, process] : node.processes) {
    StepAgent(node, RankFound{process.report, 0});
  }
  Connect(node.name, node.life);
  Beat(node.name, node.life);
}

void Cluster::Connect(const std::string& name, uint64_t life) {
  Node& node = nodes_.at(name);
  if (!node.up || node.life != life || node.connection.value() != 0 || exit_code_) return;
  if (node.refused) return;
  if (!master_up_ || !Reachable(node) || now_ < stalled_until_) {
    At(now_ + kReconnect, [this, name, life] { Connect(name, life); });
    return;
  }
  node.connection = ConnectionId(++next_connection_);
  connections_[node.connection.value()] = name;
  NodeReport report;
  report.name = node.calls_itself;
  report.boot_id = node.boot_id;
  report.incarnation = node.wished;
  report.agent_incarnation = node.incarnation;
  report.agent_pid = static_cast<int32_t>(node.life);
  report.address = node.name + ".host";
  report.slots = node.slots;
  report.store_port = node.port;
  for (uint32_t i = 0; spec_.tasks.is_on() && i < node.slots; ++i) {
    report.task_ports.push_back(40'000 + i);
  }
  report.version_major = kVersionMajor;
  report.version_minor = kVersionMinor;
  report.generation = node.agent->carried_out();
  report.ranks = node.agent->Ranks();
  ToMaster(node, NodeRegistered{node.connection, report});
}

void Cluster::Beat(const std::string& name, uint64_t life) {
  Node& node = nodes_.at(name);
  if (!node.up || node.life != life) return;
  if (!node.frozen) SendReport(node);
  At(now_ + spec_.timers.heartbeat_interval, [this, name, life] { Beat(name, life); });
}

void Cluster::SendReport(Node& node) {
  ProgressRead progress;
  for (const auto& [local, process] : node.processes) progress.ranks.push_back(process.report);
  StepAgent(node, progress);
  if (node.connection.value() == 0 || node.id.value() == 0 || !node.heartbeats) return;
  NodeReported reported{.node = node.id,
                        .connection = node.connection,
                        .generation = node.agent->carried_out(),
                        .store_port = node.port,
                        .loop_delay = Duration(),
                        .ranks = {},
                        .awaits_starter = node.agent->awaits_starter()};
  for (const RankReport& rank : node.agent->Ranks()) {
    const auto sent = node.sent.find(rank.local_rank);
    if (sent != node.sent.end() && sent->second == rank) continue;
    node.sent[rank.local_rank] = rank;
    reported.ranks.push_back(rank);
  }
  ToMaster(node, reported);
}

void Cluster::StepAgent(Node& node, const AgentEvent& event) {
  const uint64_t life = node.life;
  for (const AgentAction& action : node.agent->Step(now_, event)) {
    if (node.life != life || !node.up) return;
    Run(node, action);
  }
  WakeAgent(node);
}

void Cluster::WakeAgent(Node& node) {
  const Instant deadline = node.agent->NextDeadline();
  if (deadline.is_max()) return;
  At(deadline, [this, name = node.name, life = node.life] {
    Node& sleeper = nodes_.at(name);
    if (sleeper.up && sleeper.life == life && !sleeper.frozen) {
      StepAgent(sleeper, AgentTimePassed{});
    }
  });
}

void Cluster::Run(Node& node, const AgentAction& action) {
  const std::string name = node.name;
  const uint64_t life = node.life;
  const auto later = [&](Duration delay, AgentEvent event) {
    At(now_ + delay, [this, name, life, event = std::move(event)] {
      Node& target = nodes_.at(name);
      if (target.up && target.life == life) StepAgent(target, event);
    });
  };
  if (std::holds_alternative<StartStarter>(action)) {
    later(training_.imports, StarterReady{});
  } else if (const auto* spawn = std::get_if<SpawnRank>(&action)) {
    Spawn(node, *spawn);
  } else if (const auto* kill = std::get_if<SignalRank>(&action)) {
    const bool term = kill->signal == 15;
    if (term && training_.ignores_sigterm) return;
    At(now_ + (term ? kTermTime : kDelay), [this, name, kill = *kill] {
      End(nodes_.at(name), kill.local_rank, kill.pid, Signaled(kill.signal));
    });
  } else if (std::holds_alternative<ReleaseStorePort>(action)) {
    node.port = 0;
  } else if (std::holds_alternative<HoldStorePort>(action)) {
    node.port = next_port_++;
    later(Duration(), StorePortHeld{node.port});
  } else if (const auto* exit = std::get_if<ReportRankExit>(&action)) {
    if (node.id.value() != 0) ToMaster(node, RankExited{node.id, node.connection, exit->rank});
  } else if (std::holds_alternative<ReportNow>(action)) {
    later(Duration(), ProgressRead{});
    At(now_, [this, name, life] {
      Node& target = nodes_.at(name);
      if (target.up && target.life == life && !target.frozen) SendReport(target);
    });
  } else if (const auto* leaving = std::get_if<TellLeaving>(&action)) {
    ToMaster(node, NodeLeaving{node.id, node.connection, leaving->why});
  } else if (const auto* end = std::get_if<ExitAgent>(&action)) {
    Print(name + ": agent exits with " + std::to_string(end->exit_code));
    At(now_ + kDelay, [this, name, life] {
      Node& target = nodes_.at(name);
      if (target.life != life) return;
      target.up = false;
      if (target.connection.value() != 0) Break(target);
    });
  } else if (const auto* note = std::get_if<AgentNote>(&action)) {
    Print(name + ": " + note->text);
  }
}

// ---- streams ----

void Cluster::ToMaster(Node& node, Event event) {
  if (node.connection.value() == 0) return;
  auto deliver = [this, event = std::move(event)] {
    if (!master_up_) return;
    if (now_ < stalled_until_) {
      stalled_.push_back([this, event] { StepJob(event); });
    } else {
      StepJob(event);
    }
  };
  if (node.frozen || node.cut_out) {
    node.outbox.push_back(std::move(deliver));
  } else {
    At(now_ + kDelay, std::move(deliver));
  }
}

void Cluster::ToAgent(Node& node, ConnectionId connection, AgentEvent event) {
  At(now_ + kDelay, [this, name = node.name, connection, event = std::move(event)] {
    Node& target = nodes_.at(name);
    auto deliver = [this, name, connection, event] {
      Node& node = nodes_.at(name);
      if (node.up && node.connection == connection) StepAgent(node, event);
    };
    if (target.frozen || target.cut_in) {
      target.inbox.push_back(std::move(deliver));
    } else {
      deliver();
    }
  });
}

void Cluster::Break(Node& node) {
  const ConnectionId connection = node.connection;
  const NodeId id = node.id;
  node.connection = ConnectionId();
  connections_.erase(connection.value());
  At(now_ + kDelay, [this, connection, id] { StepJob(NodeDisconnected{id, connection}); });
  if (!node.up) return;
  const std::string name = node.name;
  const uint64_t life = node.life;
  At(now_ + kDelay, [this, name, life] {
    Node& target = nodes_.at(name);
    if (target.up && target.life == life) StepAgent(target, MasterUnlinked{"stream broke"});
  });
  At(now_ + kReconnect, [this, name, life] { Connect(name, life); });
}

// The older stream of a node is closed.
void Cluster::Admit(Node& node, NodeId id) {
  const ConnectionId before = std::exchange(speakers_[id], node.connection);
  Node* other = before == node.connection ? nullptr : Speaker(before);
  if (other != nullptr) Break(*other);
  node.id = id;
}

void Cluster::Refuse(Node& node, const RefuseNode& refusal) {
  node.refused = true;
  Break(node);
  constexpr int kRefused = 4;
  if (!refusal.retry) {
    StepAgent(node, MasterRefused{refusal.what, kRefused});
    return;
  }
  At(now_ + spec_.timers.reconnect_delay_max, [this, name = node.name, life = node.life] {
    if (nodes_.at(name).life == life) nodes_.at(name).refused = false;
    Connect(name, life);
  });
}

void Cluster::Flush(Node& node) {
  if (!node.frozen && !node.cut_in) {
    for (auto& deliver : std::exchange(node.inbox, {})) At(now_ + kDelay, std::move(deliver));
  }
  if (!node.frozen && !node.cut_out) {
    for (auto& deliver : std::exchange(node.outbox, {})) At(now_ + kDelay, std::move(deliver));
  }
}

}  // namespace paceline::core::testing
