#pragma once

// The living ranks of one node: who they are, how they are started, signalled and heard to end.
//
// An end is heard twice: from the starter (with the wait status) and from the rank's pidfd (also
// when the starter is dead). The starter's word is waited for a little, because the cause is in it;
// each rank's end is told exactly once.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "paceline/agent/agent_files.h"
#include "paceline/agent/hang/evidence_desk.h"
#include "paceline/agent/hang/flight_rings.h"
#include "paceline/agent/ranks/kernel_evidence.h"
#include "paceline/agent/ranks/page_file.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/ranks/rank_env.h"
#include "paceline/agent/ranks/rank_logs.h"
#include "paceline/agent/ranks/starter_client.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/core/node/agent.h"
#include "paceline/model/job_spec.h"

namespace paceline::agent {

struct RankTableSetup {
  AgentFiles files;
  JobSpec job;
  LaunchSpec launch;
  Environment base_env;
  const FlightRings* rings = nullptr;  // null: ranks make none
};

// A rank that the page tells of and the table does not have.
struct FoundRank {
  RankReport report;
  uint64_t start_time_ticks = 0;
  bool is_alive = false;
};

class RankTable {
 public:
  // `last` is how far the rank came, from the page: what heartbeats told is older.
  using Ended = std::function<void(const core::RankEnded&, const std::optional<RankReport>& last)>;

  // All outlive the table.
  RankTable(Reactor& reactor, const PageFile& page, RankTableSetup setup, Ended ended);
  ~RankTable();
  RankTable(const RankTable&) = delete;
  RankTable& operator=(const RankTable&) = delete;

  // The starter's `spawn` message, and everything it names made ready.
  nlohmann::json PrepareSpawn(const core::SpawnRank& spawn);
  // A living rank, just started or found on the page. Its end is told by the loop, never from here.
  void Add(const RankReport& rank, uint64_t start_time_ticks);
  void Signal(uint32_t local_rank, int32_t pid, int signal);

  void OnStarterExited(const StarterChild& child);
  void OnStarterListed(const std::vector<StarterChild>& children);
  void OnStarterLost();
  void set_starter_is_there(bool is_there) { starter_is_there_ = is_there; }

  // With those that have ended where `with_ended` says so, but only of the newest generation: ends
  // of older ones were told long ago.
  std::vector<FoundRank> Find(bool with_ended);

  bool is_empty() const { return ranks_.empty(); }
  bool Has(const ProcessId& process) const;
  // Living ranks as the page has them now.
  std::vector<RankReport> ReadProgress();
  // Those of that world.
  std::vector<WatchedRank> Watched(Generation generation) const;
  void TrimLogs() const;

 private:
  struct Living {
    ProcessId process;
    Generation generation;
    Rank rank;
    Fd pidfd;
    int64_t quiet_from_ns = 0;     // it cannot be quiet before; its ring is not read till then
    Reactor::TimerId waiting = 0;  // for the starter's word about an end
  };
  // Looks at its ring, when it is time.
  void NoteQuiet(Living* rank, RankReport* report) const;
  // Nobody waits for it any more.
  std::optional<Living> Drop(uint32_t local_rank);
  void OnPidfd(uint32_t local_rank);
  // The cause of an end that this agent did not see, from what the slot and the files say.
  ExitCause JudgeOld(const SlotReading& reading);
  void Finish(uint32_t local_rank, std::optional<int32_t> wait_status);
  ExitCause Judge(const Living& rank, std::optional<int32_t> wait_status, bool port_taken);
  std::optional<SlotReading> ReadingOf(uint32_t local_rank, const Living& rank) const;

  Reactor& reactor_;
  const PageFile& page_;
  RankTableSetup setup_;
  Ended ended_;
  RankLogs logs_;
  KernelEvidence kernel_;
  bool starter_is_there_ = false;
  uint64_t newest_generation_ = 0;
  std::map<uint32_t, Living> ranks_;  // by local rank
};

}  // namespace paceline::agent
