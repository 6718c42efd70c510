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
#include "paceline/agent/ranks/memory_watch.h"
#include "paceline/agent/ranks/page_file.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/ranks/rank_env.h"
#include "paceline/agent/ranks/task_ports.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/agent/starter/starter_client.h"
#include "paceline/core/node/agent.h"
#include "paceline/logclass/rule_set.h"
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
  static constexpr Duration kTimesEvery = Duration::Seconds(1);

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
  // What the rings of the living ranks count. Samples: step times of the ranks that have counted
  // more steps since their last sample; a rank is sampled at most once every kSampleTime. Times: of
  // all ranks, once every kTimesEvery.
  void ReadRings(std::vector<RankSample>* samples, std::vector<RankTimes>* times);
  // The times of a rank that has ended, until its end. Once; none: its ring did not tell them.
  std::optional<RankTimes> TakeLastTimes(const RankReport& ended);
  // What the ranks use of the node's memory, if that is news.
  std::optional<NodeMemory> TakeMemory();
  // Follows what an assignment says of the node's memory.
  void Take(const Assignment& assignment) { memory_.Raise(assignment.memory_limit); }
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
    int64_t times_from_ns = 0;     // its times are not read before
    Reactor::TimerId waiting = 0;  // for the starter's message about an end
  };
  // Notes in `report` whether the rank is quiet, by its ring. Does nothing before the rank can be
  // quiet.
  void NoteQuiet(Living* rank, RankReport* report) const;
  // Removes a rank from the table and returns it; nullopt if it is not there.
  std::optional<Living> Drop(uint32_t local_rank);
  void OnPidfd(uint32_t local_rank);
  // Keeps the times of a rank that ended then (0: now), for TakeLastTimes.
  void NoteLastTimes(uint32_t local_rank, const Living& rank, int64_t ended_ns);
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
  MemoryWatch memory_;
  KernelEvidence kernel_;
  // With the user's own; empty: those that are compiled in.
  std::optional<logclass::RuleSet> rules_;
  bool starter_is_there_ = false;
  uint64_t newest_generation_ = 0;
  std::map<uint32_t, Living> ranks_;  // by local rank
  // By local rank, of the newest rank there that has ended.
  std::map<uint32_t, RankTimes> last_times_;
};

}  // namespace paceline::agent
