#pragma once

// A snapshot of what a process is doing, from /proc.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/instant.h"

namespace paceline::agent {

struct ProcessLook {
  bool is_there = false;
  char state = '?';  // of the main thread, as in /proc/PID/stat
  // Since the process started, with its living descendants, because a loader's workers read for it.
  Duration cpu;          // of all threads; the kernel counts in units of 10 ms
  uint64_t bytes = 0;    // read and written by system calls
  bool is_whole = true;  // false: there were too many descendants, and some were not examined
  // How often the main thread of each of these processes began to wait, or had to stop, by pid.
  std::map<pid_t, uint64_t> switches;
  // "read of /data/train.bin", "a lock"; empty if it runs or is unknown. If a child waits for a
  // file, so does the process: "read of /data/train.bin, in a child process".
  std::string waits_in;
  // A child that a signal stopped, such as a DataLoader's worker; 0: none.
  pid_t stopped_child = 0;
};

// Checks `process` after the look, so that a later process with the same pid is not reported.
ProcessLook LookAt(const ProcessId& process, const std::string& proc_root = "/proc");

// Looks again at processes that `before` is a look at, until two looks in a row agree which of them
// are stopped. Somebody who stops or continues several processes does that between two readings of
// one look, too: one look alone may see only some of them stopped. A process about which the looks
// do not agree after a few times gets the state '?'. `look` waits before it looks.
std::vector<ProcessLook> SettledLooks(std::vector<ProcessLook> before,
                                      const std::function<std::vector<ProcessLook>()>& look);

// True if processes of this host wait for a processor: the kernel's pressure (PSI) says that in the
// last 10 s some waited for more than 20 % of the time.
bool IsHostPressed(const std::string& proc_root = "/proc");

}  // namespace paceline::agent
