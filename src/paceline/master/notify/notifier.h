#pragma once

// Runs the user's command for each notice, one at a time, on a thread of its own: a command that
// hangs or fails delays only the next notices. At most kQueueMax of them wait; the oldest goes
// first, and the next notice says how many were dropped.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/master/report/metrics.h"

namespace paceline::master {

struct NotifyOptions {
  std::vector<std::string> command;  // program and arguments; no shell
  Duration timeout;                  // then the command and what it started are killed
  Duration end_wait;                 // for all commands that are left when the master ends
  std::string cwd;
};

class Notifier {
 public:
  static constexpr size_t kQueueMax = 16;

  explicit Notifier(NotifyOptions options);
  // Waits for the notices that are left, all together for at most `end_wait`.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // Any thread. The command gets it as one line, with the member "dropped".
  void Post(nlohmann::ordered_json notice);

  NoticeCounts counts() const { return {done_, failed_, dropped_}; }

 private:
  using Clock = std::chrono::steady_clock;
  void Work();
  // Returns why the command failed; "": it ended with 0.
  std::string Run(const std::string& line);
  // Until when the command that runs may run, and which of the two limits that is.
  struct Limit {
    Clock::time_point at;
    bool is_end_of_master;
  };
  Limit LimitNow();
  // Waits until the child has ended. Returns the limit that came first, if one did.
  std::optional<Limit> AwaitEnd(int pidfd, int output, std::string* said);
  std::string KilledText(const Limit& reached) const;
  void Tell(const std::string& why);

  const NotifyOptions options_;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<uint64_t> failed_ = 0;
  std::atomic<uint64_t> dropped_ = 0;
  uint64_t failed_in_a_row_ = 0;  // of the thread
  Clock::time_point began_;       // the command that runs; of the thread

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<nlohmann::ordered_json> queue_;
  uint64_t dropped_since_ = 0;               // the last command began
  std::optional<Clock::time_point> ending_;  // when the thread has to be done
  std::thread thread_;
};

}  // namespace paceline::master
