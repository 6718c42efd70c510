#pragma once

// Determines how and why a rank ended: from its wait status, progress page, error record, the end
// of stderr, and kernel messages. The wait status decides; the others only explain.

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
  std::optional<int32_t> wait_status;  // empty: lost with the starter
  bool port_taken = false;
  std::string error_record;  // the record's file; empty if there is none
  std::string stderr_tail;
  bool cgroup_killed = false;
  std::string kernel_line;
  std::string kernel_lines;  // recent ones, about no rank
};

ExitCause JudgeExit(const ExitEvidence& evidence);

// How an error record explains the failure. Nullopt if it is malformed or of another process.
std::optional<ExitCause> CauseByRecord(std::string_view error_record, pid_t pid);

// "ValueError: bad batch" with all lines of the message. Empty as for TracebackOf.
std::string ExceptionOf(std::string_view error_record, pid_t pid);

// "SIGKILL", "SIGSEGV", …; "signal 77" if it has no name.
std::string SignalName(int signal);

// The traceback in an error record. Empty if the record is malformed or of another process (0:
// any).
std::string TracebackOf(std::string_view error_record, pid_t pid);

}  // namespace paceline::agent
