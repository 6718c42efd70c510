#pragma once

// Processes by pid *and* start time: a pid alone is reused, both together name one process of this
// boot. Signals go only to what was verified so.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "paceline/base/fd.h"

namespace paceline::agent {

struct ProcessId {
  pid_t pid = 0;
  uint64_t start_time_ticks = 0;  // field 22 of /proc/PID/stat
  bool operator==(const ProcessId&) const = default;
};

// What /proc/PID/stat says of a process; state 0: it is not there.
struct ProcessStat {
  char state = 0;  // of the main thread: 'R', 'S', 'T', …
  uint64_t flags = 0;
  uint64_t cpu_ticks = 0;  // of all threads since its start, in user and in kernel mode
  uint64_t start_time_ticks = 0;
};
ProcessStat ReadStat(pid_t pid, const std::string& proc_root = "/proc");

// 0 when there is no such process.
uint64_t StartTimeOf(pid_t pid, const std::string& proc_root = "/proc");

// True while the process exists and is not a zombie.
bool IsAlive(const ProcessId& process, const std::string& proc_root = "/proc");

// True once SIGKILL has reached it or it has begun to end: on a busy machine it may be seen alive
// for many milliseconds more.
bool IsDying(const ProcessId& process, const std::string& proc_root = "/proc");

// A descriptor that becomes readable when the process ends; closed when it is gone already. The
// start time is compared after opening, so the descriptor cannot belong to a successor.
Fd OpenPidfd(const ProcessId& process);

// Signals the process group whose leader this is. The leader is pinned by a pidfd while the group
// is signalled, so a reused number is never hit. False when the leader is gone and reaped: then its
// group cannot be verified and nothing is sent (the starter ends the rest of such a group).
bool SignalGroup(const ProcessId& leader, int signal);

// /proc/sys/kernel/random/boot_id, 36 characters.
std::string BootId();

}  // namespace paceline::agent
