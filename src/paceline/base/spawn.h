#pragma once

// Starts a program detached from this one: its own session, no descriptors except those named,
// default signals. Safe in a process with threads (posix_spawn).

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"

namespace paceline {

struct SpawnRequest {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH when it has no slash
  std::vector<std::string> env;   // whole environment, "NAME=value"
  std::string cwd;                // empty: the caller's
  std::string output_path;        // stdout and stderr are appended here; empty: /dev/null
  int passed_fd = -1;             // becomes descriptor 3 of the child; -1: none
  int input_fd = -1;              // becomes stdin; -1: /dev/null
  int output_fd = -1;             // becomes stdout and stderr, instead of output_path; -1: not
};

struct SpawnedProcess {
  pid_t pid = 0;
  Fd pidfd;  // readable when it has ended; then call ReapProcess
};

absl::StatusOr<SpawnedProcess> SpawnDetached(const SpawnRequest& request);

// The wait status of an ended child, as from wait4(2); -1 if it was not our child or still lives.
int ReapProcess(pid_t pid);

// This process's environment as "NAME=value".
std::vector<std::string> CurrentEnvironment();

}  // namespace paceline
