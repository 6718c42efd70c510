#include "paceline/agent/leave_signal.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "paceline/agent/agent_setup.h"
#include "paceline/base/fd.h"

namespace paceline::agent {
namespace {

// Sends a launcher's request to this process, and reads it as an agent does.
core::LeaveAsked AskedOfThisProcess(LeaveSignal ask) {
  BlockAgentSignals();
  const Fd signals = OpenAgentSignals();
  AskAgentToLeave(::getpid(), ask);
  signalfd_siginfo info{};
  EXPECT_EQ(::read(signals.get(), &info, sizeof(info)), static_cast<ssize_t>(sizeof(info)));
  core::StopAsks asks;
  return ReadLeaveSignal(info, Instant::FromNanoseconds(1), &asks);
}

TEST(LeaveSignal, TheAgentEndsWithTheCodeOfTheSignalThatItsLauncherReceived) {
  for (const bool force : {false, true}) {
    for (const int signal : {SIGINT, SIGTERM}) {
      const core::LeaveAsked asked = AskedOfThisProcess({.signal = signal, .force = force});
      EXPECT_EQ(asked.exit_code, 128 + signal);
      EXPECT_EQ(asked.signal, signal);
      EXPECT_EQ(asked.why, signal == SIGINT ? "SIGINT" : "SIGTERM");
      EXPECT_EQ(asked.force, force);
    }
  }
}

TEST(LeaveSignal, ALauncherWithoutASignalMeansSigterm) {
  const core::LeaveAsked asked = AskedOfThisProcess({});
  EXPECT_EQ(asked.exit_code, 128 + SIGTERM);
  EXPECT_EQ(asked.signal, 0);
}

}  // namespace
}  // namespace paceline::agent
