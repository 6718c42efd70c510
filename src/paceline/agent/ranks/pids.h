#pragma once

// Processes by pid *and* start time. Pids are reused, but both together name one process of this
// boot. Signals are sent only to processes verified in this way.

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

// The content of /proc/PID/stat; state 0: no such process.
struct ProcessStat {
  char state = 0;  // of the main thread: 'R', 'S', 'T', …
  uint64_t flags = 0;
  // In user and in kernel mode: of all threads since its start, and of ended children that it has
  // waited for.
  uint64_t cpu_ticks = 0;
  uint64_t start_time_ticks = 0;
};
ProcessStat ReadStat(pid_t pid, const std::string& proc_root = "/proc");

// 0 when there is no such process.
uint64_t StartTimeOf(pid_t pid, const std::string& proc_root = "/proc");

// True while the process exists and is not a zombie.
bool IsAlive(const ProcessId& process, const std::string& proc_root = "/proc");

// True if SIGKILL has reached the process or it has begun to exit. On a busy machine it may look
// alive for many milliseconds more.
bool IsDying(const ProcessId& process, const std::string& proc_root = "/proc");

// A descriptor that becomes readable when the process ends; closed if it is already gone. The start
// time is compared after opening, so it cannot belong to a later process.
Fd OpenPidfd(const ProcessId& process);

// Signals the process group of this leader. A pidfd pins the leader meanwhile, so a reused number
// is never hit. False if the leader is reaped: its group cannot be verified then, and nothing is
// sent (the starter ends the rest of the group).
bool SignalGroup(const ProcessId& leader, int signal);

// /proc/sys/kernel/random/boot_id, 36 characters.
std::string BootId();

// Names the processes that this one can see by pid: the boot, and the pid namespace of this
// container. The kernel uses a namespace's number again, so the start of its first process is a
// part of the name.
std::string PidSpaceName();

}  // namespace paceline::agent
