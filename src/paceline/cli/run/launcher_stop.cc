// How a launcher ends: signals of users, and of a platform that takes its host away.

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "paceline/agent/leave_signal.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
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
// Without the master the newest step stays in memory, so a busy master has time to answer.
constexpr Duration kMasterPatience = Duration::Seconds(10);
constexpr Duration kForcePatience = Duration::Seconds(2);
constexpr Duration kTryPatience = Duration::Seconds(2);  // of one request
constexpr auto kTryPause = std::chrono::milliseconds(100);
constexpr int64_t kWakePauseNs = 500'000'000;  // between looks for stopped processes
// A master that was stopped at each look for so long is passed over.
constexpr int64_t kStoppedPatienceNs = 2'000'000'000;

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
        has_stopped_alone_ = options_.card.has_master && !has_ended_;
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
                                  ", and SIGKILL after ",
                                  FormatDuration(options_.spec.timers.stop_grace),
                                  signal == SIGINT ? ". Ctrl-C again, a second from now or later,"
                                                   : ". `paceline stop --force`",
                                  " stops at once; steps since the last save are lost then."));
  if (!options_.card.has_master) {
    // The master is on another host, so only this host's nodes leave the job.
    AskAgentsToLeave({.signal = signal, .force = force});
    return;
  }
  if (!force) WakeStopped(signal, who);
  wire::StopRequest request{.why = Concat("stopped by ", who),
                            .grace = options_.spec.timers.stop_grace,
                            .exit_code = 128 + signal,
                            .force = force,
                            .signal = signal};
  const Duration patience = force ? kForcePatience : kMasterPatience;
  stoppers_.emplace_back([this, request, who, patience] { AskMaster(request, who, patience); });
}

// A request that comes again changes nothing, so each try has a short limit: a master that is slow
// takes one of them, and this thread ends soon after the master was passed over.
void Launcher::AskMaster(wire::StopRequest request, const std::string& who, Duration patience) {
  wire::ControlClientOptions client;
  client.address = options_.card.master_address;
  client.credentials = options_.credentials;
  client.timeout = kTryPatience;
  const int64_t until = agent::MonotonicNs() + patience.nanoseconds();
  for (int tries = 1; !has_stopped_alone_; ++tries) {
    const absl::Status stopped = wire::ControlClient(client).Stop(request);
    if (stopped.ok()) return;
    if (!IsAway(stopped) || agent::MonotonicNs() >= until) break;
    if (tries == 1) {
      reactor_->Post([this, patience] {
        if (has_ended_) return;
        options_.narrate(Concat("The master has not answered yet. It has ",
                                FormatDuration(patience),
                                " in all, because it brings the newest step to storage."));
      });
    }
    std::this_thread::sleep_for(kTryPause);
  }
  reactor_->Post([this, signal = request.signal, who] { PassOverMaster(signal, who); });
}

// Goes on without the master: the ranks are stopped by their agents, and this launcher records the
// stop at its end. The master is killed, because it would otherwise take up its job again later.
void Launcher::PassOverMaster(int signal, const std::string& who) {
  if (has_ended_) return;
  options_.narrate(
      "The master does not answer, so the agents are asked to stop their ranks. A step that is "
      "only in memory stays there for --resume.");
  has_stopped_alone_ = true;
  AskAgentsToLeave({.signal = signal, .force = stop_asks_.is_forced()});
  if (master_.process.pid > 0) ::kill(master_.process.pid, SIGKILL);
  OnJobEnded(128 + signal, Concat("stopped by ", who, "; the master did not answer"));
}

// A process that was stopped (SIGSTOP) cannot take part in the end, so it is continued. A master
// that is stopped all the same, as by a debugger, is passed over.
void Launcher::WakeStopped(int signal, const std::string& who) {
  const auto wake = [this](const std::string& name, pid_t pid) {
    const char state = pid > 0 ? agent::ReadStat(pid).state : '\0';
    if (state == 'T') ::kill(pid, SIGCONT);
    if (state == 'T' && continued_.insert(pid).second) {
      options_.narrate(Concat(name, " (process ", pid,
                              ") was stopped by SIGSTOP. It is continued, to end the job."));
    }
    return state == 'T' || state == 't';
  };
  for (const auto& [node, kept] : agents_) wake("The agent of " + node, kept.process.pid);
  const int64_t now = agent::MonotonicNs();
  if (!wake("The master", master_.process.pid)) {
    master_stopped_since_ns_ = 0;
  } else if (master_stopped_since_ns_ == 0) {
    master_stopped_since_ns_ = now;
  } else if (now - master_stopped_since_ns_ >= kStoppedPatienceNs) {
    PassOverMaster(signal, who);
    // Also if it had told the end of the job before.
    if (master_.process.pid > 0) ::kill(master_.process.pid, SIGKILL);
  }
  reactor_->CallAt(now + kWakePauseNs, [this, signal, who] { WakeStopped(signal, who); });
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
