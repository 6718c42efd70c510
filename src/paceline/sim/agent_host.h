#pragma once

// The host of one simulated agent: gives events to core::AgentMachine, executes its actions on the
// simulated node, keeps one connection to the master and sends reports. Like the real event loop it
// decides nothing.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/node/agent.h"
#include "paceline/core/record.h"
#include "paceline/core/succession/journal_copy.h"
#include "paceline/model/ids.h"
#include "paceline/model/link_test.h"
#include "paceline/model/node.h"
#include "paceline/model/node_memory.h"
#include "paceline/model/plan_note.h"
#include "paceline/sim/checkpoint/station.h"
#include "paceline/sim/queue.h"

namespace paceline::sim {

class Master;
class Node;
class SimWorld;

class AgentHost {
 public:
  AgentHost(SimWorld& world, Node& node, uint64_t incarnation);

  uint64_t incarnation() const { return incarnation_; }
  int32_t pid() const { return pid_; }
  bool is_frozen() const { return is_frozen_; }
  bool is_linked() const { return is_linked_; }
  // A resting agent sends no heartbeats, because nothing changes. SimWorld counts them as received.
  bool is_resting() const { return is_resting_; }
  bool has_ended() const { return has_ended_; }
  Node& node() { return node_; }
  ConnectionId connection() const { return connection_; }
  NodeId node_id() const { return node_id_; }
  const core::AgentMachine& machine() const { return machine_; }

  SimStation& station() { return station_; }
  // Term of the master whose assignment it carries out.
  uint64_t obeys() const { return obeys_; }
  bool has_copy() const { return copy_.offer().length > 0; }
  void DropCopy() { copy_.Drop(); }

  void Start();
  // The process died: close what it held. `is_silent`: its host lost power, so its peers are not
  // told.
  void Die(bool is_silent);
  void Freeze() { is_frozen_ = true; }
  void Thaw();
  // Lets the agent send heartbeats again.
  void StopResting();

  // --- from the master ---
  void OnAdmitted(ConnectionId connection, NodeId node, uint64_t term);
  void OnRefused(ConnectionId connection, bool may_retry);
  // `term`: of the master that says so.
  void OnAssignment(ConnectionId connection, const Assignment& assignment, uint64_t term);
  void OnJournalPiece(ConnectionId connection,
                      const JournalPiece<std::vector<core::Record>>& piece);
  void OnJournalWanted(ConnectionId connection, uint64_t from);
  void OnOrder(ConnectionId connection, const CheckpointOrder& order);
  void OnLinkTry(ConnectionId connection, const LinkTry& order);
  void OnEvidenceOrder(ConnectionId connection, Generation generation, uint64_t round);
  void OnEndOfStream(ConnectionId connection);

  // --- from its host ---
  void TellMemory(const NodeMemory& memory);
  void Feed(core::AgentEvent event);
  // Asks the agent to leave, as a signal would.
  void AskToLeave(core::LeaveAsked asked);
  // Runs it now, or when the process thaws.
  void WhenAwake(Task task);
  // Runs `task` later, if this very agent still lives then.
  void Later(Duration delay, std::function<void(AgentHost&)> task);

  // --- from its ranks ---
  void TakePlan(PlanNote note);

  // --- from its station ---
  void Tell(const CheckpointReport& report);
  // Exits if the machine has ended and no image of this node still has to go to storage.
  void MayExit();

 private:
  void Perform(const core::AgentAction& action);
  void Do(const core::StartStarter& action);
  void Do(const core::SpawnRank& action);
  void Do(const core::SignalRank& action);
  void Do(const core::ReleaseStorePort& action);
  void Do(const core::HoldStorePort& action);
  void Do(const core::ReportRankExit& action);
  void Do(const core::ReportNow& action);
  void Do(const core::TellLeaving& action);
  void Do(const core::ExitAgent& action);
  void Do(const core::AgentNote& action);
  void Do(const core::RunChecks& action);

  void Connect();
  void ConnectLater();
  void ActOnItAgain(const Assignment& assignment);
  void Register(Master& master);
  void Unlink(const std::string& why);
  void Beat();
  void ScheduleBeat();
  void ScheduleSamples();
  void RunChecks();
  void EndChecksLater();
  void TellCheck();
  NodeCheck ToldCheck() const;
  // Address of its bulk channel, if links are tested.
  std::string Bulk() const;
  std::string WhyNoLink(const std::string& address);
  bool MayRest() const;
  void ReadProgress();
  void SendReport();
  void TellPlan();
  void Rearm();
  void NoteCarriedOut();

  SimWorld& world_;
  Node& node_;
  const uint64_t incarnation_;
  const int32_t pid_;
  core::AgentMachine machine_;
  SimStation station_;
  core::JournalCopy<std::vector<core::Record>> copy_;
  bool is_frozen_ = false;
  bool is_linked_ = false;
  bool has_ended_ = false;
  std::optional<int> exit_code_;  // set when it must exit
  Generation carried_out_;        // as reported to the station
  uint64_t obeys_ = 0;
  bool is_connecting_ = false;
  bool is_resting_ = false;
  bool was_asked_ = false;   // to leave
  bool is_refused_ = false;  // for good
  ConnectionId connection_;  // 0: none
  NodeId node_id_;
  uint32_t store_port_ = 0;
  Duration retry_delay_;
  Duration worst_lateness_;
  Instant armed_for_ = Instant::Max();
  std::optional<PlanNote> plan_;         // the newest that rank 0 reported here
  std::deque<Task> backlog_;             // while frozen
  std::map<uint32_t, RankReport> sent_;  // by local rank, the last report on this connection
};

}  // namespace paceline::sim
