#pragma once

// How a launcher asks an agent of its host to leave the job. Plain signals to an agent, from `kill`
// or from a scheduler that signals a whole cgroup, are judged by core::StopAsks.

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include "paceline/base/instant.h"
#include "paceline/core/node/agent.h"
#include "paceline/core/stop_asks.h"

namespace paceline::agent {

struct LeaveSignal {
  int signal = 0;      // first signal for its ranks; 0: SIGTERM
  bool force = false;  // no grace for its ranks
};

inline constexpr int kForceBit = 1 << 8;  // above all signal numbers

// SIGTERM, or SIGINT for force, because a pending signal absorbs others of the same number.
inline void AskAgentToLeave(pid_t pid, LeaveSignal ask) {
  sigval value{};
  value.sival_int = ask.signal | (ask.force ? kForceBit : 0);
  ::sigqueue(pid, ask.force ? SIGINT : SIGTERM, value);
}

// The request in the signal. `asks` remembers earlier ones.
inline core::LeaveAsked ReadLeaveSignal(const signalfd_siginfo& info, Instant now,
                                        core::StopAsks* asks) {
  const int signal = static_cast<int>(info.ssi_signo);
  const core::StopAsk ask = asks->Take(now, signal);
  LeaveSignal asked{.signal = signal,
                    .force = ask == core::StopAsk::kForce || ask == core::StopAsk::kKill};
  if (info.ssi_code == SI_QUEUE)
    asked = {.signal = info.ssi_int & (kForceBit - 1), .force = (info.ssi_int & kForceBit) != 0};
  // Of a launcher's request, the signal that the launcher received, not the one that carried it.
  const int first = asked.signal == 0 ? SIGTERM : asked.signal;
  return {.why = first == SIGINT ? "SIGINT" : "SIGTERM",
          .grace = Duration(),
          .exit_code = 128 + first,
          .force = asked.force,
          .signal = asked.signal};
}

}  // namespace paceline::agent
