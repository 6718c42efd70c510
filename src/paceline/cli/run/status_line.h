#pragma once

// Keeps the live line of a terminal up to date: it asks the master for the job's status about once
// a second. Without a terminal, as in the log of a batch job, it asks less often. On a joined host
// without a terminal it never asks: the answer names every node, so a thousand such hosts would
// keep the master busy.
//
// In each case it prints messages from time to time: that the master does not answer, and that the
// disk of the run directory is full, because the ranks' output is lost until it has room. On the
// master's host it also prints what a job that does not train waits for. Nothing else depends on
// this class.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "paceline/agent/logs/disk_watch.h"
#include "paceline/cli/console/console.h"
#include "paceline/cli/run/lost_output.h"
#include "paceline/cli/run/wait_teller.h"
#include "paceline/wire/client/control_client.h"

namespace paceline::cli {

// Limit for one answer of the master.
inline constexpr Duration kStatusLinePatience = Duration::Seconds(1);

class StatusLine {
 public:
  struct Place {
    bool has_live_line = false;
    bool has_master = true;  // on this host. Other hosts do not repeat what the job waits for.
    // Whether the launcher's stream to the master is open; any thread.
    std::function<bool()> is_linked = [] { return true; };
    bool was_over = false;  // the job had ended when this launcher began
    std::string master_address = {};
    Duration orphan_after = {};
    std::string run_dir = {};
    // Without a live line: prints the same text as a line, if it has changed, this often.
    Duration tell_every = Duration::Infinite();
    LostOutput* lost = nullptr;  // looks at the ranks' pages; none for another's job
  };
  // `client` and `console` must outlive it.
  StatusLine(wire::ControlClient& client, Console& console, Place place);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

 private:
  void Follow();
  absl::StatusOr<wire::JobStatus> Ask();
  void TellWait(const absl::StatusOr<wire::JobStatus>& status);
  void TellState(const absl::StatusOr<wire::JobStatus>& status);
  void TellRoom();
  bool Pause();
  std::string Rescue() const;

  wire::ControlClient& client_;
  Console& console_;
  const Place place_;
  WaitTeller teller_;            // of waits that the master reports
  WaitTeller no_master_teller_;  // of a master that does not answer
  agent::DiskWatch disk_;
  std::string told_state_;
  Instant told_state_at_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// What a job without progress waits for, in words; "" if the job trains or has ended.
std::string WaitOf(const absl::StatusOr<wire::JobStatus>& status);

// "step 1840 · world 2 of 6 ranks · goodput 98.7 % · loss 1.234".
std::string LiveLine(const wire::JobStatus& status);

}  // namespace paceline::cli
