#pragma once

// A whole job in virtual time for unit tests: the real Job, a real AgentMachine for every node, and
// simple models of processes, streams and training. It is smaller than the simulator (sim/) and
// scripted: no chance and fixed delays, so its output can be stored in a file.
//
// After every step of the job, a second state folded from the records must equal the first.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/job.h"
#include "paceline/core/node/agent.h"

namespace paceline::core::testing {

struct Bug {
  int64_t step = 0;
  int64_t rank = 0;  // -1: every rank
  std::string text;
};

struct Training {
  int64_t save_every = 0;   // 0: the script reports no checkpoints
  int64_t done_at = -1;     // ranks exit with 0 there
  bool tells_steps = true;  // pl.step(); otherwise the hook counts
  bool steps = true;        // false: no optimizer steps
  bool ignores_sigterm = false;
  Duration imports = Duration::Milliseconds(20);  // of a starter
  Duration cascade;          // survivors fail with a connection error after this; 0: they hang
  uint32_t ports_taken = 0;  // coming worlds whose store port is taken
  std::vector<Bug> bugs;
  std::map<std::string, std::string> unstartable;  // node, or "all" → why no process starts there
  std::map<std::string, std::string> broken;       // node → what ranks raise there before a step
};

class Cluster {
 public:
  explicit Cluster(JobSpec spec);

  // Runs everything that is due until then.
  void RunUntil(Instant until);
  void At(Instant when, std::function<void()> action);
  Instant now() const { return now_; }

  // ---- events of the cluster ----
  void StartNode(const std::string& name, uint32_t slots);
  void KillRank(const std::string& node, uint32_t local, ExitCause cause);
  void KillAgent(const std::string& node, Duration down);
  void Vanish(const std::string& node, bool witness);  // host gone; witness: the platform saw it
  void Reboot(const std::string& node, Duration down);
  void Freeze(const std::string& node, bool frozen);
  void Cut(const std::string& node, bool in, bool out);
  void StopHeartbeats(const std::string& node, bool stopped);
  void Leave(const std::string& node, const std::string& why);
  // Its platform ends the node after `left`, and told so.
  void Notice(const std::string& node, Duration left);
  // A second host whose agent has that node's name.
  void SecondAgent(const std::string& node);
  void KillMaster();
  void StartMaster();
  // The master is lost with its host, before its `uncopied` newest records were copied. The next
  // master has a higher term.
  void LoseMaster(size_t uncopied);
  // The master crashes once, when its journal reaches this length, possibly in the middle of a step
  // and before the step's effects. It restarts soon. 0: never.
  void CrashMasterAt(size_t records) { crash_at_ = records; }
  void StallMaster(Duration length);
  void Tell(const Event& event);  // directly to the master

  Training& training() { return training_; }
  const Job& job() const { return *job_; }
  const std::vector<Record>& journal() const { return journal_; }
  std::optional<int> exit_code() const { return exit_code_; }
  std::vector<std::string>& trace() { return trace_; }
  // Living ranks of outdated generations, or two holders of one rank; must be empty.
  std::string RankConflict() const;
  void Remark(const std::string& text) { Print("* " + text); }
  size_t LivingRanks() const;
  int64_t step_max() const { return step_max_; }
  const JobSpec& spec() const { return spec_; }

 private:
  struct Process {
    RankReport report;
    uint32_t world_size = 0;
    int64_t step = 0;
    bool entered = false;
    bool blocked = false;  // its cascade is scheduled
  };
  struct Node {
    std::string name;
    std::string calls_itself;  // its own name, or another node's by mistake
    std::string boot_id = "boot1";
    uint32_t slots = 2;
    bool up = false;
    bool refused = false;      // for good
    uint64_t life = 0;         // counts agents; work of an older one is dropped
    uint64_t incarnation = 0;  // of its agent
    uint32_t wished = 0;       // of the node, if a platform places it
    std::unique_ptr<AgentMachine> agent;
    ConnectionId connection;
    NodeId id;
    std::map<uint32_t, Process> processes;
    std::map<uint32_t, RankReport> ended;  // as kept on the page
    std::map<uint32_t, RankReport> sent;
    uint32_t port = 0;
    bool frozen = false;
    bool cut_in = false;
    bool cut_out = false;
    bool heartbeats = true;
    std::vector<std::function<void()>> inbox;  // held back while frozen or cut off
    std::vector<std::function<void()>> outbox;
  };

  void Print(const std::string& text);
  void StepJob(const Event& event);
  void CrashMaster();
  void Wake();
  void Run(const Effect& effect);
  void Obey(const Wish& wish);
  void Launch(const std::string& name, uint32_t incarnation);
  Node* Speaker(ConnectionId connection);

  void StartAgent(Node& node);
  void Connect(const std::string& name, uint64_t life);
  void Beat(const std::string& name, uint64_t life);
  void SendReport(Node& node);
  void StepAgent(Node& node, const AgentEvent& event);
  void WakeAgent(Node& node);
  void Run(Node& node, const AgentAction& action);
  void ToMaster(Node& node, Event event);
  void ToAgent(Node& node, ConnectionId connection, AgentEvent event);
  void Spawn(Node& node, const SpawnRank& action);
  void End(Node& node, uint32_t local, int32_t pid, ExitCause cause);
  void Break(Node& node);  // the stream ends; both sides notice
  void Refuse(Node& node, const RefuseNode& refusal);
  void Admit(Node& node, NodeId id);
  void Flush(Node& node);
  void Train();
  void TrainWorld(Generation generation, std::vector<std::pair<Node*, uint32_t>> members);
  bool Reachable(const Node& node) const { return !node.frozen && !node.cut_in && !node.cut_out; }

  std::map<std::string, uint32_t> launched_;  // incarnation, by name
  JobSpec spec_;
  Training training_;
  Instant now_;
  uint64_t order_ = 0;
  std::map<std::pair<Instant, uint64_t>, std::function<void()>> queue_;
  std::unique_ptr<Job> job_;
  JobState folded_;
  std::vector<Record> journal_;
  bool master_up_ = false;
  uint64_t master_life_ = 0;
  uint64_t master_term_ = 0;
  History history_ = History::kOwn;  // of the next master
  size_t crash_at_ = 0;
  Instant stalled_until_;
  std::vector<std::function<void()>> stalled_;
  std::optional<int> exit_code_;
  std::map<std::string, Node> nodes_;
  std::map<uint64_t, std::string> connections_;
  std::map<NodeId, ConnectionId> speakers_;
  uint64_t next_connection_ = 0;
  int32_t next_pid_ = 100;
  uint32_t next_port_ = 20'000;
  int64_t checkpoint_ = 0;
  int64_t step_max_ = 0;
  std::vector<std::string> trace_;
};

}  // namespace paceline::core::testing
