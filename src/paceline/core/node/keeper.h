#pragma once

// The launcher's decisions on one host, as a pure machine: which of its children (the master, one
// agent a node) is started again, when, and what a dead agent says about its node.
//
// The idea: a dead agent is no dead node. Its ranks run on by themselves, so the launcher waits
// `settle` and then counts them. Some live: only the agent is started again and it re-adopts them.
// All are dead: the node is gone, and the master is told (a witness that is faster than silence).
// Where several nodes of one host are the whole job they stand for machines, so a dead one stays
// dead until the master wishes for its next incarnation. Any other node is its host's own: its
// launcher starts the agent again, and the master decides whether the node takes part. Nothing was
// placed there: an idle agent is simply started again. An agent that left as it was told is not
// missed: the end of the job is on its way, and only if it does not come is the agent started
// again, to ask. Children that die at once again and again are started with a doubling delay. One
// that had come up and was killed from outside is no such child: a kill says nothing about it. A
// master that ends well has nothing left to do: the job has ended, and its journal says how,
// whether or not the launcher had connected by then.
//
// The agents of a host that runs the master are started when it serves for the first time: dialled
// earlier they would be refused and lose a tenth of a second to their pause.

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
  bool by_itself = false;  // exit(2) and not a signal
  int code = 0;
  bool was_killed = false;  // SIGKILL: somebody else's doing
};
struct AgentUp {
  std::string node;
};
struct AgentExited {
  std::string node;
  bool by_itself = false;
  int code = 0;
  bool was_killed = false;
  bool has_left = false;  // as it was told to, its ranks ended: no death
};
// The answer to CountRanks.
struct RanksCounted {
  std::string node;
  uint32_t placed = 0;  // ranks that the node held and that had not ended well
  uint32_t living = 0;
};
// The master wishes for this node in that incarnation, at least its second.
struct NodeWanted {
  std::string node;
  uint32_t incarnation = 0;
};
struct JobEnded {};  // whatever exits from now on is meant to
struct KeeperTimePassed {};

using KeeperEvent = std::variant<KeepStarted, MasterUp, MasterExited, AgentUp, AgentExited,
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
struct ReadJobEnd {};  // the master is done: how the job ended stands in the journal
// The child cannot run at all; its own log says why. The launcher ends with this exit code.
struct GiveUp {
  int exit_code = 0;
  std::string why;
};

using KeeperAction = std::variant<StartMaster, StartAgent, CountRanks, ReportNodeGone, KeeperNote,
                                  ReadJobEnd, GiveUp>;

struct KeeperPlan {
  bool has_master = true;          // this host runs it
  std::vector<std::string> nodes;  // agents of this host
  bool is_whole_job = false;       // no other host takes part
  Timers timers;
};

class Keeper {
 public:
  explicit Keeper(KeeperPlan plan);

  std::vector<KeeperAction> Step(Instant now, const KeeperEvent& event);
  Instant NextDeadline() const;
  // The node is dead and stays so.
  bool IsGone(const std::string& node) const;

 private:
  struct Child {
    enum class State { kDown, kUp, kJudged, kGone, kDone };
    State state = State::kDown;
    Instant due = Instant::Max();  // of the restart or, in kJudged, of the count
    Instant begun;                 // when it was last started, whether or not it came up
    uint32_t deaths_at_once = 0;   // in a row, each soon after its start
    uint32_t wanted = 0;           // incarnation of the node, and
    uint32_t started = 0;          // the one that was started last
  };
  using Actions = std::vector<KeeperAction>;

  void StartAll(Instant now);
  void StartAgents(Instant now);
  void OnMasterExited(Instant now, const MasterExited& event, Actions* actions);
  void OnWanted(Instant now, const NodeWanted& event);
  void OnAgentExited(Instant now, const AgentExited& event, Actions* actions);
  void OnRanksCounted(Instant now, const RanksCounted& event, Actions* actions);
  void OnTime(Instant now, Actions* actions);
  Duration DelayAfterDeath(Instant now, bool was_killed, Child* child) const;
  bool AllAgentsDone() const;

  KeeperPlan plan_;
  bool agents_begun_ = false;
  Child master_;
  std::map<std::string, Child> agents_;
  bool has_ended_ = false;
};

}  // namespace paceline::core
