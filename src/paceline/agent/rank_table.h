#pragma once

// The living ranks of one node: starts, signals and watches them.
//
// An end is noticed twice: by the starter's message, which has the wait status, and by the rank's
// pidfd, which works without a starter. The table waits briefly for the starter, because its
// message has the cause. Each end is reported exactly once.

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
#include "paceline/agent/logs/log_tender.h"
#include "paceline/agent/logs/rank_logs.h"
#include "paceline/agent/ranks/kernel_evidence.h"
#include "paceline/agent/ranks/page_file.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/ranks/rank_env.h"
#include "paceline/agent/ranks/task_ports.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/agent/starter/starter_client.h"
#include "paceline/core/node/agent.h"
#include "paceline/model/job_spec.h"

namespace paceline::agent {

struct RankTableSetup {
  AgentFiles files;
  JobSpec job;
  LaunchSpec launch;
  Environment base_env;
  std::string gloo_interface;          // "": ranks need none
  const FlightRings* rings = nullptr;  // null: ranks have no rings
  uint64_t port_seed = 0;
};

// A rank that is on the page but not in the table.
struct FoundRank {
  RankReport report;
  uint64_t start_time_ticks = 0;
  bool is_alive = false;
};

class RankTable {
 public:
  // `last` is the rank's progress from the page; heartbeats may be older.
  using Ended = std::function<void(const core::RankEnded&, const std::optional<RankReport>& last)>;

  // All arguments must outlive the table.
  RankTable(Reactor& reactor, const PageFile& page, RankTableSetup setup, Ended ended);
  ~RankTable();
  RankTable(const RankTable&) = delete;
  RankTable& operator=(const RankTable&) = delete;

  // Ports held for tasks, by slot; empty in a job with a world.
  std::vector<uint32_t> task_ports() const { return task_ports_.ports(); }
  // Makes the files ready and returns the starter's `spawn` message.
  nlohmann::json PrepareSpawn(const core::SpawnRank& spawn);
  // Adds a living rank, just started or found on the page. The loop reports its end, never this
  // call.
  void Add(const RankReport& rank, uint64_t start_time_ticks);
  void Signal(uint32_t local_rank, int32_t pid, int signal);

  void OnStarterExited(const StarterChild& child);
  void OnStarterListed(const std::vector<StarterChild>& children);
  void OnStarterLost();
  void set_starter_is_there(bool is_there) { starter_is_there_ = is_there; }

  // Living ranks, and if `with_ended` also ended ones of the newest generation. Ends of older ones
  // were reported long ago.
  std::vector<FoundRank> Find(bool with_ended);

  bool is_empty() const { return ranks_.empty(); }
  bool Has(const ProcessId& process) const;
  // The living ranks with their progress from the page.
  std::vector<RankReport> ReadProgress();
  // Step times of the ranks that have counted more steps since their last sample. A rank is sampled
  // at most once every kSampleTime.
  std::vector<RankSample> ReadSamples();
  // The living ranks of that world.
  std::vector<WatchedRank> Watched(Generation generation) const;
  // Begins to keep the log files within their limits, on a thread of its own.
  void TendLogs();

 private:
  struct Living {
    ProcessId process;
    Generation generation;
    Rank rank;
    Fd pidfd;
    int64_t quiet_from_ns = 0;     // not quiet before; its ring is not read till then
    int64_t sample_from_ns = 0;    // no sample before
    uint64_t sampled_steps = 0;    // of the last one
    Reactor::TimerId waiting = 0;  // for the starter's message about an end
  };
  // Notes in `report` whether the rank is quiet, by its ring. Does nothing before the rank can be
  // quiet.
  void NoteQuiet(Living* rank, RankReport* report) const;
  // Removes a rank from the table and returns it; nullopt if it is not there.
  std::optional<Living> Drop(uint32_t local_rank);
  void OnPidfd(uint32_t local_rank);
  // The cause of an end that this agent did not see, from the slot and the files.
  ExitCause JudgeOld(const SlotReading& reading);
  void OpenLogs(uint64_t generation);
  void KeepPort(const core::SpawnRank& spawn);
  void Finish(uint32_t local_rank, std::optional<int32_t> wait_status);
  ExitCause Judge(const Living& rank, std::optional<int32_t> wait_status, bool port_taken);
  std::optional<SlotReading> ReadingOf(uint32_t local_rank, const Living& rank) const;

  Reactor& reactor_;
  const PageFile& page_;
  RankTableSetup setup_;
  Ended ended_;
  RankLogs logs_;
  LogTender log_tender_;
  TaskPorts task_ports_;
  KernelEvidence kernel_;
  bool starter_is_there_ = false;
  uint64_t newest_generation_ = 0;
  std::map<uint32_t, Living> ranks_;  // by local rank
};

}  // namespace paceline::agent
