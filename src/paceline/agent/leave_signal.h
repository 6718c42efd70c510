#pragma once

// How a launcher asks an agent of its host to leave the job. A plain signal to an agent, as from
// `kill` or a scheduler that signals a whole cgroup, is judged by core::StopAsks.

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include "paceline/base/instant.h"
#include "paceline/core/node/agent.h"
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

// What the signal asks of the agent. `asks` remembers those before it.
inline core::LeaveAsked ReadLeaveSignal(const signalfd_siginfo& info, Instant now,
                                        core::StopAsks* asks) {
  const int signal = static_cast<int>(info.ssi_signo);
  const core::StopAsk ask = asks->Take(now, signal);
  LeaveSignal asked{.signal = signal,
                    .force = ask == core::StopAsk::kForce || ask == core::StopAsk::kKill};
  if (info.ssi_code == SI_QUEUE)
    asked = {.signal = info.ssi_int & (kForceBit - 1), .force = (info.ssi_int & kForceBit) != 0};
  return {.why = signal == SIGINT ? "SIGINT" : "SIGTERM",
          .grace = Duration(),
          .exit_code = 128 + signal,
          .force = asked.force,
          .signal = asked.signal};
}

}  // namespace paceline::agent
