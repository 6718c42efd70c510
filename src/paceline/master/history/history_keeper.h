#pragma once

// Reads and writes the history on a thread of its own, so that a slow disk or another master never
// delays the job. An error is logged once; the job then does without.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "paceline/base/instant.h"
#include "paceline/model/job_history.h"

namespace paceline::master {

class HistoryKeeper {
 public:
  static constexpr uint32_t kRunsRead = 8;  // the newest of the signature
  static constexpr Duration kReadPatience = Duration::Milliseconds(100);
  static constexpr Duration kEndPatience = Duration::Seconds(1);

  // Begins to read the runs of that signature.
  HistoryKeeper(std::string folder, std::string signature);
  // Waits until the last Put is written, at most kEndPatience. A thread that hangs in the file
  // system is left behind.
  ~HistoryKeeper();
  HistoryKeeper(const HistoryKeeper&) = delete;
  HistoryKeeper& operator=(const HistoryKeeper&) = delete;

  // Returns the earlier runs, the newest first. Waits at most kReadPatience for the file, and
  // returns none if that is too short.
  std::vector<JobHistory> Earlier();
  // Written soon. Replaces one that waits.
  void Put(JobHistory history);

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<std::vector<JobHistory>> earlier;
    std::optional<JobHistory> waiting;
    bool is_ending = false;
    bool has_ended = false;
  };
  static void Work(const std::shared_ptr<Shared>& shared, const std::string& folder,
                   const std::string& signature);
  static absl::Status Serve(Shared* shared, const std::string& folder,
                            const std::string& signature);

  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace paceline::master
