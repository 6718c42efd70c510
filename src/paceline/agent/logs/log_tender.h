#pragma once

// The thread that keeps the ranks' log files within their limits and watches the disk below them.
//
// A call to the disk may block for minutes: the disk is frozen, or the server of a network file
// system is gone. The agent's loop must not wait for it, because a node whose agent is silent is
// lost.

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "paceline/agent/logs/disk_watch.h"
#include "paceline/agent/logs/rank_logs.h"

namespace paceline::agent {

class LogTender {
 public:
  struct LoggedRank {
    uint64_t generation = 0;
    uint32_t rank = 0;
  };
  struct Round {
    uint64_t generation = 0;        // whose files are trimmed
    std::vector<LoggedRank> ranks;  // their stderr gets the note of a full disk
  };

  // `logs` must outlive the tender. `error_dir` gets the room for the first failure.
  LogTender(const RankLogs& logs, std::string error_dir);
  // Waits for the round that is under way.
  ~LogTender();
  LogTender(const LogTender&) = delete;
  LogTender& operator=(const LogTender&) = delete;

  // Begins a round. Does nothing and returns false while the last one is under way.
  bool Begin(Round round);

 private:
  void Tend(const Round& round);

  const RankLogs& logs_;
  const std::string error_dir_;
  DiskWatch disk_;  // of the thread
  std::atomic<bool> is_busy_ = false;
  std::thread thread_;
};

}  // namespace paceline::agent
