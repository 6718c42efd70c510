#pragma once

// The agent's decisions, as a second pure machine: it makes the node what its assignment says. The
// host (agent/event_loop) supplies events, executes the actions and decides nothing. The simulator
// runs the same machine on a fake process table.
//
// Rules: ranks of another generation are SIGKILLed at once, because in a blocked collective they
// would use up any grace. A new rank is spawned only when its slot's old process is gone. kStop and
// kLeave send one signal (the one that the launcher received, usually SIGTERM), and SIGKILL after a
// grace. Without a master everything continues, but only a node with a block of generations may
// restart its own world.

#include <algorithm>
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
// The stream broke. The host reconnects by itself.
struct MasterUnlinked {
  std::string why;
};
// The master refuses this agent's name, token or release. That alone is no reason to end its ranks.
// But no rank is started any more, and the agent exits when none lives.
struct MasterRefused {
  std::string why;
  int exit_code = 0;
  // The ranks are outdated and are ended after this grace. None: they train on while they can.
  std::optional<Duration> grace = {};
};
struct AssignmentReceived {
  Assignment assignment;
};
struct StarterReady {};  // connected and able to spawn
// The starter's socket closed; living ranks continue.
struct StarterLost {
  std::string why;
};
// At an agent's start: an earlier rank from the page, living or ended.
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
  Duration ended_for;  // since then; 0: not known
};
// The page, read at each heartbeat.
struct ProgressRead {
  std::vector<RankReport> ranks;
};
struct LeaveAsked {
  std::string why;
  Duration grace;
  int exit_code = 0;
  bool force = false;
  int signal = 0;  // first signal for ranks; 0: SIGTERM
};
struct AgentTimePassed {};
// The port that is held now, at the start and after every HoldStorePort. 0: none was free.
struct StorePortHeld {
  uint32_t port = 0;
};

using AgentEvent =
    std::variant<MasterLinked, MasterUnlinked, MasterRefused, AssignmentReceived, StarterReady,
                 StarterLost, RankFound, RankSpawned, SpawnFailed, RankEnded, ProgressRead,
                 LeaveAsked, AgentTimePassed, StorePortHeld>;

// ---- actions for the host ----
// Connects to a starter or launches one. `fresh`: not one that was launched before.
struct StartStarter {
  bool fresh = false;
};
struct SpawnRank {
  uint32_t local_rank = 0;
  Rank rank;
  Assignment assignment;  // whole context for the rank's environment
};
// Signals the whole process group.
struct SignalRank {
  uint32_t local_rank = 0;
  int32_t pid = 0;
  int signal = 0;
};
struct ReleaseStorePort {};  // just before rank 0 is spawned here
struct HoldStorePort {};     // hold a new port for the next world, not the last one
// Send at once.
struct ReportRankExit {
  RankReport rank;
};
struct ReportNow {};  // send a heartbeat now, with all changes
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
// Run the checks of the user again: no rank lives here.
struct RunChecks {
  uint32_t round = 0;
};

using AgentAction =
    std::variant<StartStarter, SpawnRank, SignalRank, ReleaseStorePort, HoldStorePort,
                 ReportRankExit, ReportNow, TellLeaving, ExitAgent, AgentNote, RunChecks>;

class AgentMachine {
 public:
  // `used`: `newest_used` of an earlier agent of this node and boot. It counts as carried out.
  explicit AgentMachine(const JobSpec& spec, Generation used = Generation());

  std::vector<AgentAction> Step(Instant now, const AgentEvent& event);
  Instant NextDeadline() const;

  // The generation of the last completed assignment: its ranks are spawned, all others are gone.
  Generation carried_out() const { return carried_out_; }
  // The same, or the number that the node gave itself since then. Its master may not know that
  // number, so the host keeps it for the next agent.
  Generation newest_used() const { return std::max(carried_out_, solo_generation_); }
  // True: its order to run waits for a starter that was launched and has not imported all yet.
  bool awaits_starter() const {
    return assignment_.kind == Assignment::Kind::kRun && carried_out_ < assignment_.generation &&
           starter_asked_ && !starter_ready_;
  }
  const Assignment& assignment() const { return assignment_; }
  // True while an agent that was told to exit must wait, because a master may still order its last
  // step to storage. It waits while it is connected. If the master that ended the job has died, it
  // waits for the next one for at most orphan_after. It does not wait if the master refused it, or
  // if its own host asked it to leave.
  bool HasHope(Instant now) const;
  // Living and starting ranks and the last end in every slot.
  std::vector<RankReport> Ranks() const;
  // The same for a registration: since when those that ended are dead.
  std::vector<RankReport> RanksAt(Instant now) const;

 private:
  struct Slot {
    std::optional<RankReport> process;  // living, or the last one that ended here
    bool alive = false;
    bool spawning = false;
    Generation spawning_generation;
    Rank spawning_rank;           // in the world of that generation
    uint32_t spawn_failures = 0;  // in a row, of this generation
    bool termed = false;
    bool killed = false;
    Instant kill_at = Instant::Max();   // send SIGKILL then if it still lives
    Instant stuck_at = Instant::Max();  // report it as stuck then if it still lives
    Instant ended_at = Instant::Max();  // Max: it lives, or that is not known

    // Its process, living or ended, is of that generation.
    bool IsOf(Generation generation) const {
      return process.has_value() && process->generation == generation;
    }
    // No rank of that generation was started, none is starting, and the slot is empty.
    bool Lacks(Generation generation) const { return !IsOf(generation) && !alive && !spawning; }
  };
  friend class AgentTurn;

  // Some rank of that generation was started here.
  bool Holds(const Assignment& assignment) const;

  JobSpec spec_;
  Assignment assignment_;
  Generation carried_out_;
  Generation solo_generation_;  // the last one that this agent took from the node's own block
  std::map<uint32_t, Slot> slots_;
  bool linked_ = false;
  Instant unlinked_since_;
  bool heard_of_time_ = false;  // false: unlinked_since_ starts at the first step
  bool starter_ready_ = false;
  bool starter_asked_ = false;
  bool fresh_asked_ = false;  // a fresh starter was requested for this generation
  uint32_t held_port_ = 0;
  std::optional<MasterRefused> refused_;
  std::optional<LeaveAsked> leaving_;
  Instant stop_since_ = Instant::Max();
  bool exited_ = false;
  uint32_t checks_begun_ = 0;  // the highest round
  uint32_t solo_failures_without_progress_ = 0;
  int64_t step_max_ = -1;  // at the last failure of a rank
  int64_t step_count_max_ = 0;
};

}  // namespace paceline::core
