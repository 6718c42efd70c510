// Processes, training and faults of the test cluster.

#include <algorithm>

#include "paceline/core/testing/cluster.h"

namespace paceline::core::testing {

namespace {

constexpr Duration kFork = Duration::Milliseconds(10);
constexpr Duration kEnter = Duration::Milliseconds(100);
constexpr Duration kStep = Duration::Milliseconds(100);
constexpr Duration kWitness = Duration::Milliseconds(50);

ExitCause Raised(const std::string& text) {
  ExitCause cause;
  cause.kind = ExitCause::Kind::kExited;
  cause.code = 1;
  cause.headline = text;
  cause.fingerprint = text;
  return cause;
}

}  // namespace

// ---- processes ----

void Cluster::Spawn(Node& node, const SpawnRank& action) {
  const std::string name = node.name;
  const uint64_t life = node.life;
  At(now_ + kFork, [this, name, life, action] {
    Node& target = nodes_.at(name);
    if (!target.up || target.life != life) return;
    auto why = training_.unstartable.find(name);
    if (why == training_.unstartable.end()) why = training_.unstartable.find("all");
    if (why != training_.unstartable.end()) {
      StepAgent(target, SpawnFailed{action.local_rank, action.assignment.generation, why->second});
      return;
    }
    Process process;
    process.report.generation = action.assignment.generation;
    process.report.rank = action.rank;
    process.report.local_rank = action.local_rank;
    process.report.pid = next_pid_++;
    process.world_size = action.assignment.world_size;
    const int32_t pid = process.report.pid;
    target.processes[action.local_rank] = process;
    target.ended.erase(action.local_rank);
    StepAgent(target, RankSpawned{action.local_rank, action.assignment.generation, pid});
    const bool taken = action.rank.value() == 0 && training_.ports_taken > 0;
    if (taken) --training_.ports_taken;
    At(now_ + kEnter, [this, name, local = action.local_rank, pid, taken] {
      Node& target = nodes_.at(name);
      const auto found = target.processes.find(local);
      if (found == target.processes.end() || found->second.report.pid != pid) return;
      if (taken) {
        ExitCause cause;
        cause.kind = ExitCause::Kind::kExited;
        cause.code = 75;
        cause.port_taken = true;
        End(target, local, pid, cause);
        return;
      }
      if (const auto why = training_.broken.find(name); why != training_.broken.end()) {
        End(target, local, pid, Raised(why->second));
        return;
      }
      found->second.entered = true;
      found->second.report.state = RankReport::State::kRunning;
    });
  });
}

void Cluster::End(Node& node, uint32_t local, int32_t pid, ExitCause cause) {
  const auto found = node.processes.find(local);
  if (found == node.processes.end() || found->second.report.pid != pid) return;
  RankReport report = found->second.report;
  node.processes.erase(found);
  report.state = RankReport::State::kExited;
  report.exit = cause;
  node.ended[local] = report;
  if (!node.up || node.frozen) return;
  StepAgent(node, ProgressRead{{[&] {
              RankReport last = report;
              last.state = RankReport::State::kStepping;
              last.exit = ExitCause();
              return last;
            }()}});
  StepAgent(node, RankEnded{local, report.generation, pid, cause});
}

std::string Cluster::RankConflict() const {
  std::map<std::pair<uint64_t, uint32_t>, std::string> holders;
  for (const auto& [name, node] : nodes_) {
    for (const auto& [local, process] : node.processes) {
      const auto key =
          std::make_pair(process.report.generation.value(), process.report.rank.value());
      if (!holders.emplace(key, name).second) {
        return "rank " + std::to_string(key.second) + " of generation " +
               std::to_string(key.first) + " lives on " + holders[key] + " and " + name;
      }
    }
  }
  return "";
}

size_t Cluster::LivingRanks() const {
  size_t count = 0;
  for (const auto& [name, node] : nodes_) count += node.processes.size();
  return count;
}

// ---- training ----

void Cluster::Train() {
  std::map<Generation, std::vector<std::pair<Node*, uint32_t>>> worlds;
  for (auto& [name, node] : nodes_) {
    for (auto& [local, process] : node.processes) {
      worlds[process.report.generation].emplace_back(&node, local);
    }
  }
  for (auto& [generation, members] : worlds) TrainWorld(generation, std::move(members));
  At(now_ + kStep, [this] { Train(); });
}

void Cluster::TrainWorld(Generation, std::vector<std::pair<Node*, uint32_t>> members) {
  const uint32_t world_size = members.front().first->processes[members.front().second].world_size;
  const auto process_of = [](const std::pair<Node*, uint32_t>& member) -> Process& {
    return member.first->processes[member.second];
  };
  const bool whole = members.size() == world_size;
  const bool entered = std::all_of(members.begin(), members.end(), [&](const auto& member) {
    return process_of(member).entered && Reachable(*member.first);
  });
  if (!whole && training_.cascade > Duration()) {
    for (const auto& member : members) {
      Process& process = process_of(member);
      if (process.blocked || process.report.state != RankReport::State::kStepping) continue;
      process.blocked = true;
      At(now_ + training_.cascade,
         [this, name = member.first->name, local = member.second, pid = process.report.pid] {
           End(nodes_.at(name), local, pid, Raised("RuntimeError: Connection reset by peer"));
         });
    }
  }
  if (!whole || !entered || !training_.steps) return;
  const Process& first = process_of(members.front());
  const int64_t step = 1 + (first.report.step_count == 0 ? checkpoint_ : first.step);
  step_max_ = std::max(step_max_, step);
  const bool saves = training_.save_every > 0 && step % training_.save_every == 0;
  if (saves) checkpoint_ = step;
  for (const auto& member : members) {
    Process& process = process_of(member);
    process.step = step;
    process.report.state = RankReport::State::kStepping;
    if (training_.tells_steps) process.report.step = step;
    ++process.report.step_count;
    if (saves) process.report.saved_step = step;
  }
  for (const auto& member : members) {
    const Process process = process_of(member);
    for (const Bug& bug : training_.bugs) {
      const bool hit = bug.rank < 0 || bug.rank == process.report.rank.value();
      if (step == bug.step && hit) {
        End(*member.first, member.second, process.report.pid, Raised(bug.text));
      }
    }
    if (training_.done_at >= 0 && step >= training_.done_at) {
      ExitCause done;
      done.kind = ExitCause::Kind::kExited;
      End(*member.first, member.second, process.report.pid, done);
    }
  }
}

// ---- faults ----

void Cluster::KillRank(const std::string& name, uint32_t local, ExitCause cause) {
  Node& node = nodes_.at(name);
  const auto found = node.processes.find(local);
  if (found == node.processes.end()) return;
  Print("* rank " + ToString(found->second.report.rank) + " on " + name + " ends");
  End(node, local, found->second.report.pid, std::move(cause));
}

void Cluster::KillAgent(const std::string& name, Duration down) {
  Print("* the agent of " + name + " is killed");
  Node& node = nodes_.at(name);
  node.up = false;
  if (node.connection.value() != 0) Break(node);
  At(now_ + down, [this, name] { StartAgent(nodes_.at(name)); });
}

void Cluster::Vanish(const std::string& name, bool witness) {
  Print("* " + name + " vanishes");
  Node& node = nodes_.at(name);
  const auto pid = static_cast<int32_t>(node.life);
  node.up = false;
  node.processes.clear();
  node.ended.clear();
  const ConnectionId connection = node.connection;
  if (!witness) {
    // A host without power sends nothing, not even a stream's end.
    node.connection = ConnectionId();
    connections_.erase(connection.value());
    return;
  }
  if (connection.value() != 0) Break(node);
  At(now_ + kWitness, [this, name, pid] {
    StepJob(NodeGone{name, "died with all its ranks", pid});
  });
}

void Cluster::Reboot(const std::string& name, Duration down) {
  Print("* the host of " + name + " reboots");
  Node& node = nodes_.at(name);
  node.up = false;
  node.processes.clear();
  node.ended.clear();
  node.boot_id += "'";
  if (node.connection.value() != 0) Break(node);
  At(now_ + down, [this, name] { StartAgent(nodes_.at(name)); });
}

void Cluster::Freeze(const std::string& name, bool frozen) {
  Print("* " + name + (frozen ? " freezes" : " thaws"));
  Node& node = nodes_.at(name);
  node.frozen = frozen;
  Flush(node);
  if (frozen) return;
  StepAgent(node, AgentTimePassed{});
  for (const auto& [local, ended] : node.ended) {
    StepAgent(node, RankEnded{local, ended.generation, ended.pid, ended.exit});
  }
}

void Cluster::Cut(const std::string& name, bool in, bool out) {
  Print("* " + name +
        (in && out ? " is cut off"
         : in      ? " cannot hear"
         : out     ? " cannot be heard"
                   : " is connected again"));
  Node& node = nodes_.at(name);
  node.cut_in = in;
  node.cut_out = out;
  Flush(node);
}

void Cluster::StopHeartbeats(const std::string& name, bool stopped) {
  Print("* " + name + (stopped ? " stops its heartbeats" : " sends heartbeats again"));
  nodes_.at(name).heartbeats = !stopped;
}

void Cluster::Leave(const std::string& name, const std::string& why) {
  Print("* " + name + " is asked to leave: " + why);
  Node& node = nodes_.at(name);
  StepAgent(node, LeaveAsked{why, spec_.timers.stop_grace, 130, false});
}

void Cluster::Notice(const std::string& name, Duration left) {
  Print("* " + name + " is to end in " + ToString(left));
  StepJob(NoticeCame{.name = name, .left = left, .why = "SIGTERM"});
  At(now_ + left, [this, name, life = nodes_.at(name).life] {
    const Node& node = nodes_.at(name);
    if (node.up && node.life == life) Vanish(name, /*witness=*/true);
  });
}

void Cluster::SecondAgent(const std::string& name) {
  Print("* a second host calls itself " + name);
  Node& twin = nodes_[name + "'"];
  twin.calls_itself = name;
  twin.boot_id = "another boot";
  StartNode(name + "'", nodes_.at(name).slots);
}

}  // namespace paceline::core::testing
