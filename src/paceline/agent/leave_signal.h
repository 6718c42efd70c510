#pragma once

// How a launcher asks an agent of its host to leave the job. A plain signal to an agent, as from
// `kill` or a scheduler that signals a whole cgroup, is judged by core::StopAsks.

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include "paceline/base/instant.h"
#include "paceline/core/agent.h"
#include "paceline/core/stop_asks.h"

namespace paceline::agent {

struct LeaveSignal {
  int signal = 0;      // what its ranks get first; 0: SIGTERM
  bool force = false;  // no grace for them
};

inline constexpr int kForceBit = 1 << 8;  // above the numbers of signals

// SIGTERM, or SIGINT for force: one that waits in the kernel swallows others of its number only.
inline void AskAgentToLeave(pid_t pid, LeaveSignal ask) {
  sigval value{};
  value.sival_int = ask.signal | (ask.force ? kForceBit : 0);
  ::sigqueue(pid, ask.force ? SIGINT : SIGTERM, value);
}

inline bool IsFromLauncher(const signalfd_siginfo& info) { return info.ssi_code == SI_QUEUE; }
inline LeaveSignal ReadLeaveSignal(const signalfd_siginfo& info) {
  return {.signal = info.ssi_int & (kForceBit - 1), .force = (info.ssi_int & kForceBit) != 0};
}

}  // namespace paceline::agent
