#pragma once

// How a rank ended and why, from everything that was left behind: wait status, progress page, error
// record, the end of its stderr, and what the kernel says. The wait status decides what happened;
// the rest only explains it.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/model/node.h"

namespace paceline::agent {

struct ExitEvidence {
  pid_t pid = 0;
  uint64_t generation = 0;
  std::optional<int32_t> wait_status;  // empty: lost together with the starter
  bool port_taken = false;
  std::string error_record;  // text of the record's file, empty when there is none
  std::string stderr_tail;
  bool cgroup_killed = false;
  std::string kernel_line;
};

ExitCause JudgeExit(const ExitEvidence& evidence);

// "SIGKILL", "SIGSEGV", …; "signal 77" for one without a name.
std::string SignalName(int signal);

// The traceback of an error record, empty when the text is none or of another process (0: of any).
std::string TracebackOf(std::string_view error_record, pid_t pid);

}  // namespace paceline::agent
