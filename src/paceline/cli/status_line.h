#pragma once

// The live line of a terminal: asks the master about once a second, for the eye only. Nothing
// depends on it.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "paceline/cli/console.h"
#include "paceline/wire/control_client.h"

namespace paceline::cli {

class StatusLine {
 public:
  // `console` outlives it.
  StatusLine(wire::ControlClientOptions client, Console& console);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

 private:
  void Follow();
  bool Pause();

  wire::ControlClientOptions options_;
  Console& console_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// "step 1840 · world 2 of 6 ranks · goodput 98.7 % · loss 1.234".
std::string LiveLine(const wire::JobStatus& status);

}  // namespace paceline::cli
