#pragma once

// What the kernel says that a process does, at one moment.

#include <cstdint>
#include <string>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/instant.h"

namespace paceline::agent {

struct ProcessLook {
  bool is_there = false;
  char state = '?';  // of the main thread, as in /proc/PID/stat
  // Since its start, with its children that live: those of a loader read for it.
  Duration cpu;        // of all threads; the kernel counts in steps of 10 ms
  uint64_t bytes = 0;  // read and written by system calls
  // "read of /data/train.bin", "a lock"; empty when it runs or is not known. When a child waits for
  // a file, that is what the process waits for: "read of /data/train.bin, in a child process".
  std::string waits_in;
};

// `process` is checked after the look: what was seen of a successor is not told.
ProcessLook LookAt(const ProcessId& process, const std::string& proc_root = "/proc");

}  // namespace paceline::agent
