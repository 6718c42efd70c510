#pragma once

// The launcher's decisions on one host, as a pure machine: which of its children (the master, one
// agent a node) it restarts and when, and what a dead agent means for its node.
//
// - After an agent's death its ranks continue. The launcher waits `settle` and counts them.
// - If some live, only the agent is restarted, and it adopts them.
// - If all are dead, the node is gone, and the master is told. That is faster than silence.
// - If several nodes of this host are the whole job, they stand for machines: a dead one stays
//   dead until the master wishes for its next incarnation. Any other node is restarted by its
//   launcher, and the master decides whether it takes part.
// - An idle agent, without ranks, is simply restarted.
// - An agent that left by the master's order is not restarted at once. If the launcher hears
// nothing
//   of the job's end within 30 s, it restarts the agent, which asks the master what to do. One case
//   is different: the order ended the job, and the master runs on another host and cannot be
//   reached. Then the launcher ends with the exit code of the order.
// - Children that repeatedly die at once are restarted with a doubling delay. A child that had
//   come up and was killed from outside is not one of them.
// - A master that exits with 0 is not restarted: the job has ended, and its journal says how.
//
// On the master's host agents are started when the master serves. Earlier connections would be
// refused, and the retry costs a tenth of a second.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/job_spec.h"

namespace paceline::core {

// ---- what happened ----
struct KeepStarted {};  // start everything; the first event
struct MasterUp {};     // it serves
struct MasterExited {
  bool by_itself = false;  // by exit(2), not by a signal
  int code = 0;
  bool was_killed = false;  // by SIGKILL from outside
};
struct AgentUp {
  std::string node;
};
struct AgentExited {
  std::string node;
  bool by_itself = false;
  int code = 0;
  bool was_killed = false;
  bool has_left = false;     // left by order, its ranks have ended
  bool is_job_over = false;  // that order came because the whole job ends
};
// The launcher's own stream to the master.
struct LauncherLinked {
  bool is_linked = false;
};
// The answer to CountRanks.
struct RanksCounted {
  std::string node;
  uint32_t placed = 0;  // ranks that the node held, without those that exited with 0
  uint32_t living = 0;
};
// The master wishes for this incarnation of the node, at least the second.
struct NodeWanted {
  std::string node;
  uint32_t incarnation = 0;
};
struct JobEnded {};  // all later exits are intended
struct KeeperTimePassed {};

using KeeperEvent =
    std::variant<KeepStarted, MasterUp, MasterExited, AgentUp, AgentExited, LauncherLinked,
                 RanksCounted, NodeWanted, JobEnded, KeeperTimePassed>;

// ---- what to do ----
struct StartMaster {};
struct StartAgent {
  std::string node;
  uint32_t incarnation = 0;
};
struct CountRanks {
  std::string node;
};
struct ReportNodeGone {
  std::string node;
  std::string evidence;
};
struct KeeperNote {
  std::string text;
};
struct ReadJobEnd {};  // the master has exited: read from the journal how the job ended
// The child cannot run; its log says why. The launcher exits with this code.
struct GiveUp {
  int exit_code = 0;
  std::string why;
};

using KeeperAction = std::variant<StartMaster, StartAgent, CountRanks, ReportNodeGone, KeeperNote,
                                  ReadJobEnd, GiveUp>;

struct KeeperPlan {
  bool has_master = true;          // this host runs it
  std::vector<std::string> nodes;  // agents of this host
  bool is_whole_job = false;       // there are no other hosts
  Timers timers;
};

class Keeper {
 public:
  explicit Keeper(KeeperPlan plan);

  std::vector<KeeperAction> Step(Instant now, const KeeperEvent& event);
  Instant NextDeadline() const;
  // The node is dead and is not restarted.
  bool IsGone(const std::string& node) const;

 private:
  struct Child {
    enum class State { kDown, kUp, kJudged, kGone, kDone };
    State state = State::kDown;
    Instant due = Instant::Max();  // of the restart; in kJudged: of the count
    Instant begun;                 // last start, successful or not
    uint32_t deaths_at_once = 0;   // consecutive deaths soon after the start
    Instant failing_since;         // the first of these deaths
    bool has_lived_well = false;   // one of its processes ran for longer than a quick exit
    uint32_t wanted = 0;           // incarnation that the master wants
    uint32_t started = 0;          // incarnation that was started last
    std::optional<int> job_end;    // the exit code with which the agent left at the job's end
  };
  using Actions = std::vector<KeeperAction>;

  void StartAll(Instant now);
  void StartAgents(Instant now);
  void OnMasterExited(Instant now, const MasterExited& event, Actions* actions);
  void OnWanted(Instant now, const NodeWanted& event);
  void OnAgentExited(Instant now, const AgentExited& event, Actions* actions);
  void OnRanksCounted(Instant now, const RanksCounted& event, Actions* actions);
  void OnTime(Instant now, Actions* actions);
  bool HasMissedTheEnd(const Child& agent) const;
  bool MasterIsHopeless(Instant now) const;
  Duration DelayAfterDeath(Instant now, bool was_killed, Child* child) const;
  bool AllAgentsDone() const;

  KeeperPlan plan_;
  bool agents_begun_ = false;
  Child master_;
  std::map<std::string, Child> agents_;
  bool is_linked_ = false;
  bool has_ended_ = false;
};

}  // namespace paceline::core
