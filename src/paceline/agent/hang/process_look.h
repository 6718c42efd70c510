#pragma once

// What the kernel says that a process does, at one moment.

#include <cstdint>
#include <string>

#include "paceline/agent/pids.h"
#include "paceline/base/instant.h"

namespace paceline::agent {

struct ProcessLook {
  bool is_there = false;
  char state = '?';      // of the main thread, as in /proc/PID/stat
  Duration cpu;          // of all threads since its start; the kernel counts in steps of 10 ms
  uint64_t bytes = 0;    // read and written by system calls since its start
  std::string waits_in;  // "read of /data/train.bin", "a lock"; empty when it runs or is not known
};

// `process` is checked after the look: what was seen of a successor is not told.
ProcessLook LookAt(const ProcessId& process, const std::string& proc_root = "/proc");

}  // namespace paceline::agent
