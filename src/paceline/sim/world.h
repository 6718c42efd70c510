#pragma once

// One simulated cluster for one seed: the queue, the network, the nodes, the master, a launcher
// that restarts dead processes, the faults, and the checks.
//
//   0 ───────── faults strike ───────── chaos ── all healed ── … well for a while ──▶ passed
//                                                     └── not well at chaos + quiet_bound ─▶ failed

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/base/prng.h"
#include "paceline/sim/check/check.h"
#include "paceline/sim/checkpoint/storage.h"
#include "paceline/sim/master.h"
#include "paceline/sim/network.h"
#include "paceline/sim/node.h"
#include "paceline/sim/options.h"
#include "paceline/sim/queue.h"
#include "paceline/sim/swarm/trace.h"
#include "paceline/sim/workload.h"

namespace paceline::sim {

struct Violation {
  std::string check;
  std::string what;
  Instant at;
};

struct Outcome {
  std::optional<Violation> violation;
  uint64_t trace_hash = 0;
  uint64_t last_random = 0;
  uint64_t task_count = 0;
  uint64_t record_count = 0;
  uint64_t world_count = 0;  // generations formed
  Instant end;
  std::string end_reason;  // "trains", "waits: …", "finished with 0: …"
};

class SimWorld {
 public:
  // `log` null: no log.
  SimWorld(const Options& options, std::FILE* log);

  Outcome Run();
  // Runs up to `until` without faults and without checks of liveness; for measurements.
  void RunUntil(Instant until);
  void PowerOnAll();

  const Options& options() const { return options_; }
  EventQueue& queue() { return queue_; }
  Prng& prng() { return prng_; }
  Trace& trace() { return trace_; }
  Network& network() { return network_; }
  Workload& workload() { return workload_; }
  // The job's; a former one may live beside it.
  Master& master() { return *master_; }
  Master* former_master() { return former_.get(); }
  Storage& storage() { return storage_; }
  // The memory that all nodes of one machine share.
  ArenaShelf& machine_shelf() { return machine_shelf_; }
  // The failure domain: its hosts may be lost together.
  std::string DomainOf(const Node& node) const;
  // Computes the present content of the arenas that this node sees.
  void SyncSaves(const Node& node);
  Node& node(uint32_t index) { return *nodes_[index]; }
  uint32_t node_count() const { return static_cast<uint32_t>(nodes_.size()); }
  bool has_failed() const { return violation_.has_value(); }
  // A node that is silent for ever while the master still counts on it; null if there is none.
  const Node* SilentMember() const;
  // True if its agent is awake and it and the master have the same connection.
  bool IsLinked(const Node& node) const;
  void Fail(std::string_view check, std::string what);

  // ---- for faults ----
  // Another host, switched off, named `name` or with a new name.
  Node& AddNode(const std::string& name = {});
  void SetPortTakings(uint32_t count) { port_takings_ = count; }
  bool is_healed() const { return is_healed_; }
  // Repeated until a master receives it.
  void RequestStop(const core::StopRequested& stop);
  // To the master that is there, if any.
  void RequestSize(core::SizeRequested size);
  // For two canaries: agents do not wait for storage at the end.
  bool EndsInAHurry() const;
  // The master's host is lost with its journal, and after `pause` another one starts the next
  // term's.
  void LoseMaster(Duration pause);
  // The same, but the master only seems to be lost: it is frozen, and continues after `away` for
  // the time `back`.
  void MisplaceMaster(Duration pause, Duration away, Duration back);
  // The launcher reports to the master that this node's agent and its ranks are dead.
  void Witness(const std::string& name, int32_t agent_pid);
  // The platform ends the node after `left`, and its launcher tells each master so.
  void GiveNotice(Node& node, Duration left);
  // The node's launcher ended with its agent, so it repeats no notice.
  void EndNotices(const Node& node);

  // From now on no launcher sees or restarts dead processes of that node, nor the master if it
  // `is_masters`.
  void EndLauncher(const Node& node, bool is_masters);
  // The new launcher restarts processes that died meanwhile.
  void StartLauncher(Node& node, bool is_masters);

  // ---- for nodes and the master ----
  uint64_t NextIncarnation() { return ++last_incarnation_; }
  int32_t NextPid() { return ++last_pid_; }
  uint32_t NextPort() { return ++last_port_ % 40'000; }
  core::StationPeer NextPeer() { return ++last_peer_; }
  bool TakePortAway() { return port_takings_ > 0 && port_takings_-- > 0; }
  void Retire(std::unique_ptr<AgentHost> agent) { retired_.push_back(std::move(agent)); }
  void Tell(ConnectionId connection, core::Event event);
  // A message that is no event of the job. `life`: the master's incarnation that it is for.
  void CallMaster(ConnectionId connection, std::function<void(Master&, uint64_t life)> task);
  // The master that answers at the job's address. Sometimes it is the former one, while that is
  // awake.
  Master& MasterToDial();
  // Agents that live now.
  uint32_t CountAgents() const;
  void TellSamples(ConnectionId connection, NodeId node, std::vector<RankSample> samples,
                   std::vector<RankTimes> times);
  void SendToAgent(ConnectionId connection, std::function<void(AgentHost&, ConnectionId)> task);
  void AgentDied(uint32_t node, int32_t agent_pid);
  void EndWhatIsLeft();
  void MasterDied(uint64_t incarnation);
  void MasterIsUp();
  // The master's host is down, so it is not restarted before ReleaseMaster.
  void HoldMaster();
  void ReleaseMaster();
  // The platform starts wished nodes whose incarnation has not been started yet.
  void Obey(const Wish& wish);

  // ---- what checks see ----
  void Decided(Instant now, const core::Event& event, const core::Actions& actions);
  void Persisted(const core::Record& record);
  void PersistedByFormer(const core::Record& record);
  void MasterRestored();
  // Before that: it begins with what its nodes had copies of, or with nothing.
  void MasterSucceeded();
  // The node listens to a master of that term from now on, and it obeys one of that term.
  void MasterMet(const Node& node, uint64_t term);
  void Ordered(const Node& node, uint64_t term);
  // A node has made a checkpoint visible, on behalf of a master of that term.
  void Committed(const Node& node, uint64_t term);
  void Ran(const core::Effect& effect, RecordSeq decided);
  void SpawnOrdered(uint32_t node, const Assignment& assignment);
  void ProcessStarted(const RankProcess& process);
  void ProcessEnded(const RankProcess& process, const ExitCause& cause);
  void StopAsked(std::optional<uint32_t> node, Duration grace, bool force);
  void Signalled(const Node& node, int32_t pid, int signal);

 private:
  template <class Call>
  void ForEachCheck(Call call) {
    for (const auto& check : checks_) {
      if (has_failed()) return;
      call(*check);
    }
  }
  struct Notice {
    uint32_t index = 0;  // of the node; another one may take its name
    std::string node;
    Instant until;
  };
  void TellNotices();
  bool IsCalm(const Node& node) const;
  void NextMaster(Duration pause);
  void EndFormer();
  Master* MasterOf(uint64_t incarnation);
  void RunOne();
  void StrikeAll();
  void CreditHeartbeats();
  void Heal();
  void Watch();
  Duration LookInterval() const;
  // Empty if the job is well, else what is missing.
  std::string Trouble();
  std::string TroubleOfProcesses(Generation generation);
  std::string TroubleOfWaiting();
  std::string TroubleOfSize();
  std::vector<uint32_t> UsableNodes();
  // Whether the largest world of these nodes holds the model of the job's plan.
  bool HoldsModel(std::vector<uint32_t> nodes, const core::WorldBounds& bounds) const;
  std::string EndReason();

  const Options options_;
  EventQueue queue_;
  Prng prng_;
  Trace trace_;
  Network network_;
  Workload workload_;
  std::unique_ptr<Master> master_;
  std::unique_ptr<Master> former_;
  std::vector<std::unique_ptr<Master>> former_masters_;  // of older terms, off; tasks name them
  Storage storage_;
  ArenaShelf machine_shelf_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<AgentHost>> retired_;  // freed when no task runs
  std::vector<std::unique_ptr<Check>> checks_;
  std::vector<core::NodeGone> witnessed_;  // repeated to every new master
  std::vector<Notice> notices_;            // the same
  std::optional<Violation> violation_;
  uint64_t last_incarnation_ = 1'000;
  int32_t last_pid_ = 100;
  uint32_t last_port_ = 0;
  core::StationPeer last_peer_ = 0;
  uint32_t port_takings_ = 0;
  uint32_t master_respawns_ = 0;
  std::map<uint32_t, uint32_t> launched_;  // newest started incarnation, by index
  bool is_master_held_ = false;
  std::set<uint32_t> unwatched_;  // nodes whose launcher is dead
  bool is_master_unwatched_ = false;
  std::optional<core::StopRequested> stop_;
  bool is_stop_repeated_ = false;
  bool is_healed_ = false;
  bool has_committed_ = false;  // a checkpoint, since the faults were healed
  bool is_done_ = false;
  uint32_t well_count_ = 0;  // consecutive looks without trouble
  int64_t step_before_ = -1;
};

// For logs: "run g3 seat 1/3 ranks 2..3".
std::string Describe(const Assignment& assignment);

}  // namespace paceline::sim
