#pragma once

// One simulated node: power, a boot id, a process table, a starter and an agent. The agent is the
// real core::AgentMachine inside an AgentHost; this class provides the rest of the machine.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/succession/term_guard.h"
#include "paceline/model/ids.h"
#include "paceline/model/node.h"
#include "paceline/model/world.h"
#include "paceline/sim/agent_host.h"
#include "paceline/sim/checkpoint/rank_saves.h"
#include "paceline/sim/network.h"

namespace paceline::sim {

class SimWorld;

struct RankProcess {
  uint32_t node = 0;
  int32_t pid = 0;
  uint32_t local_rank = 0;
  Rank rank;
  Generation generation;
  uint32_t world_size = 0;
  uint32_t restart_count = 0;
  bool is_running = false;  // it has imported its modules
  bool is_frozen = false;
  Instant frozen_until;     // when it, or its node, was last thawed
  uint64_t memory = 0;      // bytes
  uint64_t leaks = 0;       // bytes a second,
  Instant leaks_until;      // until then
  bool has_jumped = false;  // it suddenly needed more
};

// The ways in which a node becomes silent for ever.
enum class Silence {
  kFrozen,  // all its processes are stopped
  kCutOff,  // it and the master do not receive each other's messages
  kMute,    // the master does not receive its messages
};

// The exit cause of a process killed by a signal.
ExitCause Killed(int signal);

class Node {
 public:
  Node(SimWorld& world, uint32_t index, std::string name);

  uint32_t index() const { return index_; }
  HostIndex host() const { return index_ + 1; }
  const std::string& name() const { return name_; }
  const std::string& boot_id() const { return boot_id_; }
  // As agent.json keeps it for the next agent of this boot.
  Generation saved_generation() const { return saved_generation_; }
  void SaveGeneration(Generation newest_used) { saved_generation_ = newest_used; }
  bool is_on() const { return is_on_; }
  bool is_frozen() const { return is_frozen_; }
  // True if the node is silent for ever: it is neither thawed nor switched on again.
  bool is_silent() const { return is_silent_; }
  uint64_t boot_count() const { return boots_; }
  // A second agent with another node's name, by mistake.
  bool is_twin() const { return is_twin_; }
  void MakeTwin() { is_twin_ = true; }
  // True if the node offers fewer ranks than the job requires, so it is refused.
  bool is_small() const { return is_small_; }
  void MakeSmall() { is_small_ = true; }
  // True if its checks fail, or if it has half of the speed.
  bool is_bad() const { return is_bad_; }
  void Break(bool is_half) {
    is_bad_ = true;
    is_half_ = is_half;
    passed_boot_.clear();
  }
  // True if no other host reaches its bulk channel, in this boot or in the next one.
  bool has_dead_port() const { return has_dead_port_; }
  bool will_have_dead_port() const { return will_have_dead_port_; }
  void KillPortAtBoot() { will_have_dead_port_ = true; }
  // Its checks, as its agent reports them: once in a boot.
  const NodeCheck& check() const { return check_; }
  void BeginChecks();
  void BeginChecksAgain(uint32_t round);
  void EndChecks();
  AgentHost* agent() { return agent_.get(); }
  const AgentHost* agent() const { return agent_.get(); }
  const std::map<int32_t, RankProcess>& processes() const { return processes_; }
  RankSaves& ranks_saves() { return saves_; }
  // The masters that its agents have met, as they keep it on their disk.
  core::TermGuard& terms() { return terms_; }
  const core::TermGuard& terms() const { return terms_; }
  // The memory of its host; nodes of one machine share it.
  ArenaShelf& shelf();

  // --- the host ---
  void PowerOn();
  // Kills all its processes. `is_silent`: its peers are not told, as in a power failure.
  void PowerOff(bool is_silent);
  void Freeze();
  void Thaw();
  void FallSilent(Silence kind);
  void StallStarts() { is_stalled_ = true; }
  void RefuseStarts() { is_refusing_ = true; }
  void ResumeStarts() { is_stalled_ = is_refusing_ = false; }

  // --- the memory of the node ---
  void RaiseMemory(uint64_t limit);
  // That rank needs more: some at once, and then some each second for a time.
  void LeakMemory(int32_t pid, uint64_t at_once, uint64_t each_second, Duration time);

  // --- the agent ---
  void StartAgent();
  void KillAgent();
  // A user starts the command again after the agent had exited by itself.
  void Restart();
  // The launcher starts an agent that died while there was no launcher.
  void Revive() {
    if (agent_wanted_) StartAgent();
  }
  void AgentExited(uint64_t incarnation, int exit_code);
  // Runs `task` with the agent of that incarnation, if it is still the one.
  AgentHost* AgentOf(uint64_t incarnation);

  // --- the starter ---
  void StartStarter(bool is_fresh);
  void KillStarter();

  // --- ranks ---
  struct SpawnOrder {
    uint64_t agent_incarnation = 0;
    uint32_t local_rank = 0;
    Rank rank;
    Assignment assignment;
  };
  void Spawn(const SpawnOrder& order);
  void Signal(uint32_t local_rank, int32_t pid, int signal);
  void EndRank(int32_t pid, const ExitCause& cause);
  void FreezeRank(int32_t pid);
  void ThawRank(int32_t pid);
  bool IsAwake(int32_t pid) const;
  // The slots' content from the page and /proc, for a starting agent.
  std::vector<RankReport> Found() const;
  RankReport Report(const RankProcess& process) const;
  uint32_t restart_count_of(int32_t pid) const;

 private:
  enum class Starter { kNone, kStarting, kReady };

  void BeginMemory();
  void LookAtMemory();
  void UseMemory();
  void Fork(const SpawnOrder& order);
  void Import(int32_t pid);
  // The starter ends the ranks if no agent has come since that death.
  void EndOrphansAfter(uint64_t death);
  void TellEnd(const RankReport& report);

  SimWorld& world_;
  const uint32_t index_;
  const std::string name_;
  std::string boot_id_;
  Generation saved_generation_;
  uint64_t boots_ = 0;
  uint64_t memory_limit_ = 0;  // of its own cgroup
  bool is_on_ = false;
  bool is_twin_ = false;
  bool is_small_ = false;
  bool is_bad_ = false;
  bool is_half_ = false;  // and passes its own checks
  bool has_dead_port_ = false;
  bool will_have_dead_port_ = false;
  std::string passed_boot_;   // the newest boot in which the checks passed
  NodeCheck check_;           // of the present agent
  bool is_stalled_ = false;   // processes hang in their imports
  bool is_refusing_ = false;  // the starter starts nothing, and answers late
  bool is_frozen_ = false;
  bool is_silent_ = false;
  uint64_t agent_deaths_ = 0;
  bool agent_wanted_ = false;  // its launcher restarts it after a death
  Starter starter_ = Starter::kNone;
  uint64_t starter_count_ = 0;
  std::unique_ptr<AgentHost> agent_;
  std::map<int32_t, RankProcess> processes_;  // living, by pid
  struct Ended {
    RankReport report;
    Instant at;
  };
  std::map<uint32_t, Ended> ended_;  // last end of a slot, as the page keeps it
  core::TermGuard terms_;
  ArenaShelf shelf_;
  RankSaves saves_;
};

}  // namespace paceline::sim
