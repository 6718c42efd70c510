// How a launcher ends: signals of users, and of a platform that takes its host away.

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "paceline/agent/leave_signal.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/run/launcher.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

// Time between the last moment at which agents may leave and their kill by the platform.
constexpr int64_t kBeforeTakenNs = 1'000'000'000;
// Time between two sends of a notice. A master that was stopped meanwhile counts the time that is
// left from when it reads the message, so the newest message has to be exact.
constexpr int64_t kNoticePauseNs = 1'000'000'000;
// A master whose host is taken away goes on serving for this time, because the platform may be
// about to end the whole job.
constexpr int64_t kMasterStaysNs = 2'000'000'000;

// "Ctrl-C", or "SIGTERM from timeout (process 123)".
std::string SenderOf(const signalfd_siginfo& info) {
  const int signal = static_cast<int>(info.ssi_signo);
  // The pid is 0 if the kernel sent the signal (Ctrl-C), or a process outside of this container.
  const bool is_from_terminal = signal == SIGINT && info.ssi_code == SI_KERNEL;
  if (is_from_terminal) return "Ctrl-C";
  const std::string name = Concat("SIG", ::sigabbrev_np(signal));
  const auto pid = static_cast<pid_t>(info.ssi_pid);
  if (pid <= 0) return name;
  const std::string command(Trimmed(ReadText(Concat("/proc/", pid, "/comm"), 64)));
  return command.empty() ? Concat(name, " from process ", pid)
                         : Concat(name, " from ", Visible(command), " (process ", pid, ")");
}

}  // namespace

void Launcher::OnSignal() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    switch (stop_asks_.Take(agent::MonotonicNow(), signal)) {
      case core::StopAsk::kRepeat: break;
      case core::StopAsk::kFirst: AskToStop(signal, SenderOf(info), /*force=*/false); break;
      case core::StopAsk::kForce: AskToStop(signal, SenderOf(info), /*force=*/true); break;
      case core::StopAsk::kKill:
        options_.narrate("Ctrl-C a third time: killing everything of this job on this host.");
        OnJobEnded(128 + signal, "killed by the user");
        KillLeftovers();
        return;
    }
  }
}

void Launcher::AskToStop(int signal, const std::string& who, bool force) {
  if (force && has_ended_) {
    KillLeftovers();
    return;
  }
  is_stopping_ = true;
  if (options_.spec.is_placed && options_.card.has_master) {
    LeaveTheJob(signal, who);
    return;
  }
  const bool is_notice = options_.spec.is_placed && options_.platform_grace > Duration();
  if (is_notice && !force) {
    TakeNotice(signal, who);
    return;
  }
  options_.narrate(force ? Concat("Stopping at once, by ", who, ": ranks are killed now.")
                         : Concat("Stopping, by ", who, ": ranks get SIG", ::sigabbrev_np(signal),
                                  " now and SIGKILL after ",
                                  FormatDuration(options_.spec.timers.stop_grace),
                                  signal == SIGINT ? ". Ctrl-C again, a second from now or later,"
                                                   : ". `paceline stop --force`",
                                  " stops at once; steps since the last save are lost then."));
  if (!options_.card.has_master) {
    // The master is on another host, so only this host's nodes leave the job.
    AskAgentsToLeave({.signal = signal, .force = force});
    return;
  }
  wire::ControlClientOptions client;
  client.address = options_.card.master_address;
  client.credentials = options_.credentials;
  // Without the master the newest step stays in memory, so a busy master has time to answer.
  client.timeout = Duration::Seconds(force ? 2 : 10);
  wire::StopRequest request{.why = Concat("stopped by ", who),
                            .grace = options_.spec.timers.stop_grace,
                            .exit_code = 128 + signal,
                            .force = force,
                            .signal = signal};
  stoppers_.emplace_back([this, client, request, signal] {
    const absl::Status stopped = wire::ControlClient(client).Stop(request);
    if (stopped.ok()) return;
    reactor_->Post([this, signal] {
      if (has_ended_) return;
      options_.narrate("The master does not answer, so the agents are asked to stop their ranks.");
      AskAgentsToLeave({.signal = signal, .force = stop_asks_.is_forced()});
      OnJobEnded(128 + signal, "stopped without a master");
    });
  });
}

// The master replaces the node, and tells its agent to leave when that costs no step. If it does
// not, the agent leaves just before the platform kills it.
void Launcher::TakeNotice(int signal, const std::string& who) {
  notice_signal_ = signal;
  taken_at_ns_ = agent::MonotonicNs() + options_.platform_grace.nanoseconds();
  options_.narrate(Concat("This host is taken away, by ", who,
                          ": it trains on until its absence costs no step, for ",
                          FormatDuration(options_.platform_grace), " at most."));
  RepeatNotice();
  reactor_->CallAt(taken_at_ns_ - kBeforeTakenNs, [this, signal] {
    if (!has_ended_) AskAgentsToLeave({.signal = signal});
  });
}

void Launcher::TellNotice() {
  if (notice_signal_ == 0) return;
  const int64_t left = std::max<int64_t>(0, taken_at_ns_ - agent::MonotonicNs());
  for (const std::string& node : options_.card.nodes) {
    supervisor_->Send(wire::Notice{.name = node,
                                   .incarnation = options_.incarnation,
                                   .left = Duration::Nanoseconds(left),
                                   .why = Concat("SIG", ::sigabbrev_np(notice_signal_))});
  }
}

void Launcher::RepeatNotice() {
  if (has_ended_ || agent::MonotonicNs() >= taken_at_ns_) return;
  TellNotice();
  reactor_->CallAt(agent::MonotonicNs() + kNoticePauseNs, [this] { RepeatNotice(); });
}

// The platform removes this host, which does not stop the job; only `paceline stop` does. The next
// master goes on. But the platform may end the whole job, and tell the master so at the same time:
// then this master is needed until the newest step is stored.
void Launcher::LeaveTheJob(int signal, const std::string& who) {
  const int64_t now = agent::MonotonicNs();
  const int64_t last = now + options_.platform_grace.nanoseconds() - kBeforeTakenNs;
  if (last <= now) return EndMaster(signal);
  options_.narrate(Concat("Stopping, by ", who, ": this master ends soon."));
  reactor_->CallAt(std::min(last, now + kMasterStaysNs), [this, signal, last] {
    if (!is_draining_) return EndMaster(signal);
    reactor_->CallAt(last, [this, signal] { EndMaster(signal); });
  });
}

void Launcher::EndMaster(int signal) {
  if (has_ended_) return;
  options_.narrate(
      "This master ends, and the job goes on with the next one that the platform "
      "starts.");
  OnJobEnded(128 + signal, "this host was taken away");
  if (master_.process.pid > 0) ::kill(master_.process.pid, SIGKILL);
}

void Launcher::AskAgentsToLeave(agent::LeaveSignal ask) {
  for (const auto& [node, kept] : agents_) {
    if (kept.process.pid > 0) agent::AskAgentToLeave(kept.process.pid, ask);
  }
}

}  // namespace paceline::cli
