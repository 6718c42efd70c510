#pragma once

// The agent's own decisions, as a second pure machine: make the node what its assignment says.
// The host (agent/event_loop) feeds what happened and carries out the actions; it decides nothing.
// The simulator runs the same machine on a fake process table.
//
// Rules: ranks of another generation are SIGKILLed at once (blocked in a collective they would sit
// out any grace); a new rank is spawned only when its slot's old process is gone; kStop and kLeave
// send one signal (the one that somebody sent to the launcher, usually SIGTERM) and SIGKILL after a
// grace; while the master is away everything goes on, and only a node with a
// granted block of generations may restart its own world.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/ids.h"
#include "paceline/model/job_spec.h"
#include "paceline/model/node.h"
#include "paceline/model/world.h"

namespace paceline::core {

// ---- what happened on the host ----
struct MasterLinked {};  // registered and admitted
// Stream broke; the host re-connects by itself.
struct MasterUnlinked {
  std::string why;
};
// Its name, token or release will not do. Ranks are left alone: whoever can refuse an agent is not
// by that entitled to end its ranks. But nothing new is started, and the agent exits when none
// lives.
struct MasterRefused {
  std::string why;
  int exit_code = 0;
  // The ranks are of the past, and get so long to end. Nothing: they train on while they can.
  std::optional<Duration> grace = {};
};
struct AssignmentReceived {
  Assignment assignment;
};
struct StarterReady {};  // connected and able to spawn
// Its socket closed; living ranks go on.
struct StarterLost {
  std::string why;
};
// At an agent's start: a rank of before, as the page tells it, living or ended.
struct RankFound {
  RankReport rank;
  uint32_t restart_count = 0;
};
struct RankSpawned {
  uint32_t local_rank = 0;
  Generation generation;
  int32_t pid = 0;
};
struct SpawnFailed {
  uint32_t local_rank = 0;
  Generation generation;
  std::string why;
};
struct RankEnded {
  uint32_t local_rank = 0;
  Generation generation;
  int32_t pid = 0;
  ExitCause cause;
};
// The page, read at heartbeat time.
struct ProgressRead {
  std::vector<RankReport> ranks;
};
struct LeaveAsked {
  std::string why;
  Duration grace;
  int exit_code = 0;
  bool force = false;
  int signal = 0;  // what ranks get first; 0: SIGTERM
};
struct AgentTimePassed {};
// The port that is reserved now, at the start and after every HoldStorePort. 0: none was free.
struct StorePortHeld {
  uint32_t port = 0;
};

using AgentEvent =
    std::variant<MasterLinked, MasterUnlinked, MasterRefused, AssignmentReceived, StarterReady,
                 StarterLost, RankFound, RankSpawned, SpawnFailed, RankEnded, ProgressRead,
                 LeaveAsked, AgentTimePassed, StorePortHeld>;

// ---- what the host shall do ----
// Connect to or start one; fresh: never an old image.
struct StartStarter {
  bool fresh = false;
};
struct SpawnRank {
  uint32_t local_rank = 0;
  Rank rank;
  Assignment assignment;  // whole context for the rank's environment
};
// Whole group.
struct SignalRank {
  uint32_t local_rank = 0;
  int32_t pid = 0;
  int signal = 0;
};
struct ReleaseStorePort {};  // just before rank 0 is spawned here
struct HoldStorePort {};     // reserve a fresh one, other than the last, for the next world
// Push now.
struct ReportRankExit {
  RankReport rank;
};
struct ReportNow {};  // send a heartbeat with the changes now
struct TellLeaving {
  std::string why;
};
struct ExitAgent {
  int exit_code = 0;
  std::string reason;
};
struct AgentNote {
  std::string text;
};

using AgentAction =
    std::variant<StartStarter, SpawnRank, SignalRank, ReleaseStorePort, HoldStorePort,
                 ReportRankExit, ReportNow, TellLeaving, ExitAgent, AgentNote>;

class AgentMachine {
 public:
  explicit AgentMachine(const JobSpec& spec);

  std::vector<AgentAction> Step(Instant now, const AgentEvent& event);
  Instant NextDeadline() const;

  // Generation of the assignment last carried out (all its ranks spawned, all others gone).
  Generation carried_out() const { return carried_out_; }
  const Assignment& assignment() const { return assignment_; }
  // True while an agent that was told to exit shall wait, because a master may still order its
  // last step to storage. It waits while it is connected. When the master that ended the job has
  // died since, it waits for the next one for at most orphan_after. It does not wait where it was
  // refused or where its own host asked it to leave.
  bool HasHope(Instant now) const;
  // Living ranks, starting ones, and the last end in every slot, for a registration.
  std::vector<RankReport> Ranks() const;

 private:
  struct Slot {
    std::optional<RankReport> process;  // living, or the last one that ended here
    bool alive = false;
    bool spawning = false;
    Generation spawning_generation;
    uint32_t spawn_failures = 0;  // in a row, of this generation
    bool termed = false;
    bool killed = false;
    Instant kill_at = Instant::Max();   // SIGKILL when still alive then
    Instant stuck_at = Instant::Max();  // said to be stuck when still alive then

    // Its process, living or ended, was started for that generation.
    bool IsOf(Generation generation) const {
      return process.has_value() && process->generation == generation;
    }
    // Nothing was started for that generation, nothing is being started, and the place is empty.
    bool Lacks(Generation generation) const { return !IsOf(generation) && !alive && !spawning; }
  };
  friend class AgentTurn;

  // Some rank of that generation was started here.
  bool Holds(const Assignment& assignment) const;

  JobSpec spec_;
  Assignment assignment_;
  Generation carried_out_;
  std::map<uint32_t, Slot> slots_;
  bool linked_ = false;
  Instant unlinked_since_;
  bool heard_of_time_ = false;  // unlinked_since_ counts from the first step
  bool starter_ready_ = false;
  bool starter_asked_ = false;
  bool fresh_asked_ = false;  // this generation's fresh starter was asked for
  uint32_t held_port_ = 0;
  std::optional<MasterRefused> refused_;
  std::optional<LeaveAsked> leaving_;
  Instant stop_since_ = Instant::Max();
  bool exited_ = false;
  uint32_t solo_failures_without_progress_ = 0;
  int64_t step_max_ = -1;  // when a rank failed last
  int64_t step_count_max_ = 0;
};

}  // namespace paceline::core
