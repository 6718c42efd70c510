#include "paceline/cli/run/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "paceline/agent/agent_files.h"
#include "paceline/agent/agent_json.h"
#include "paceline/agent/ranks/page_file.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/console/error_codes.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/job/master_end.h"
#include "paceline/cli/job/moved_dir.h"
#include "paceline/cli/job/remote.h"

namespace paceline::cli {
namespace {

constexpr int64_t kLookNs = 2'000'000'000;  // between looks at the run directory
// After the job's end, processes that have not ended by themselves within this time are killed.
constexpr int64_t kLeaveNs = 5'000'000'000;
// A killed process is gone at once, unless it sleeps in the kernel.
constexpr int64_t kKilledNs = 5'000'000'000;
// How long the launcher waits for the master's last message after the master has exited.
constexpr int64_t kLastMessageNs = 2'000'000'000;

bool WasKilled(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

core::KeeperPlan PlanOf(const LauncherOptions& options) {
  return {.has_master = options.card.has_master,
          .nodes = options.card.nodes,
          .is_whole_job = options.is_whole_job,
          .timers = options.spec.timers};
}

// Kills the ranks of a node whose agent is dead or stuck.
void KillRanks(const std::string& run_dir, const std::string& node) {
  const auto page = agent::PageFile::Open(agent::PagePathIn(run_dir, node));
  if (!page.ok() || !(*page)->is_of_this_boot()) return;
  for (uint32_t slot = 0; slot < (*page)->slot_count(); ++slot) {
    const std::optional<SlotReading> reading = (*page)->Read(slot);
    if (reading.has_value()) agent::SignalGroup(agent::ProcessOf(*reading), SIGKILL);
  }
}

// An agent that was refused leaves only its error; the table of errors has the exit code.
int ExitCodeOf(const core::GiveUp& action, const std::string& words) {
  const size_t at = words.find("[PL-");
  if (action.exit_code != kExitNotAuthorised || at == std::string::npos) return action.exit_code;
  const ErrorCode* error = FindErrorCode(words.substr(at + 1, words.find(']', at) - at - 1));
  return error == nullptr ? action.exit_code : error->exit_code;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Launcher>> Launcher::Create(LauncherOptions options) {
  std::unique_ptr<Launcher> launcher(new Launcher(std::move(options)));
  ASSIGN_OR_RETURN(launcher->reactor_, agent::Reactor::Create());
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : launcher->options_.stop_signals) sigaddset(&wanted, signal);
  launcher->signals_ = Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  RETURN_IF_ERROR(launcher->reactor_->Watch(launcher->signals_.get(), EPOLLIN,
                                            [raw = launcher.get()](uint32_t) { raw->OnSignal(); }));
  return launcher;
}

Launcher::Launcher(LauncherOptions options)
    : options_(std::move(options)),
      keeper_(PlanOf(options_)),
      run_dir_now_(options_.platform.run_dir) {
  for (const std::string& node : options_.card.nodes) agents_[node];
}

Launcher::~Launcher() {
  supervisor_.reset();
  for (std::thread& stopper : stoppers_) stopper.join();
}

JobEnd Launcher::Run() {
  wire::ControlClientOptions client;
  client.address = options_.card.master_address;
  client.credentials = options_.credentials;
  supervisor_ = std::make_unique<wire::SupervisorStream>(
      client,
      [this](wire::SupervisorEvent event) {
        reactor_->Post([this, event = std::move(event)] { OnSupervisor(event); });
      },
      options_.card.has_master ? std::vector<std::string>() : options_.relays,
      options_.card.nodes.empty() ? "" : options_.card.nodes.front());
  Feed(core::KeepStarted{});
  if (!options_.card.has_master) TellServing();
  LookAtRunDir();
  reactor_->Run();
  supervisor_.reset();
  return end_;
}

// A change is printed once. The job goes on with its open files, and can still be stopped.
void Launcher::LookAtRunDir() {
  const std::string& run_dir = options_.platform.run_dir;
  const bool is_gone = ::access((run_dir + "/job.json").c_str(), F_OK) != 0 && errno == ENOENT;
  const std::string now = is_gone ? RunDirHeldBy(::getpid(), options_.card.job_id) : run_dir;
  if (now.empty()) {
    options_.narrate(Concat("The run directory ", run_dir,
                            " was removed. The job goes on, but it cannot be resumed, and its "
                            "status and logs cannot be read any more."));
    return;
  }
  if (std::exchange(run_dir_now_, now) != now) {
    options_.narrate(now == run_dir
                         ? Concat("The run directory is at ", run_dir, " again.")
                         : Concat("The run directory ", run_dir, " was moved to ", now,
                                  ". The job goes on. Move it back: after a failure, new "
                                  "processes of the job look for it at its first place."));
  }
  reactor_->CallAt(agent::MonotonicNs() + kLookNs, [this] { LookAtRunDir(); });
}

void Launcher::Feed(const core::KeeperEvent& event) {
  for (const core::KeeperAction& action : keeper_.Step(agent::MonotonicNow(), event)) {
    std::visit([this](const auto& what) { Do(what); }, action);
  }
  ArmDeadline();
}

void Launcher::ArmDeadline() {
  reactor_->Cancel(deadline_timer_);
  const Instant deadline = keeper_.NextDeadline();
  deadline_timer_ = deadline.is_max() ? 0 : reactor_->CallAt(deadline.nanoseconds(), [this] {
    Feed(core::KeeperTimePassed{});
  });
}

void Launcher::Keep(Kept* slot, const SpawnedProcess& process, std::function<void(int)> ended) {
  slot->process = {process.pid, agent::StartTimeOf(process.pid)};
  slot->is_child = true;
  WatchKept(slot, std::move(ended));
}

bool Launcher::Adopt(Kept* slot, const agent::ProcessId& process, std::function<void(int)> ended) {
  if (process.pid == 0) return false;
  Fd pidfd = agent::OpenPidfd(process);
  if (!pidfd.is_open() || !agent::IsAlive(process)) return false;
  slot->process = process;
  slot->pidfd = std::move(pidfd);
  slot->is_child = false;
  WatchKept(slot, std::move(ended));
  return true;
}

void Launcher::WatchKept(Kept* slot, std::function<void(int)> ended) {
  reactor_
      ->Watch(slot->pidfd.get(), EPOLLIN,
              [this, slot, ended = std::move(ended)](uint32_t) {
                reactor_->Unwatch(slot->pidfd.get());
                slot->pidfd.Close();
                // Another process's child has no status for us, so it counts as killed.
                const int status = slot->is_child ? ReapProcess(slot->process.pid) : SIGKILL;
                slot->last_pid = std::exchange(slot->process, {}).pid;
                ended(status);
              })
      .IgnoreError();
}

void Launcher::Do(const core::StartMaster&) {
  const auto ended = [this](int status) { OnMasterEnded(status); };
  if (Adopt(&master_, options_.card.master, ended)) {
    Feed(core::MasterUp{});
    return;
  }
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    Do(core::GiveUp{kExitTrainingFailed, Concat("no pipe can be made: ", std::strerror(errno))});
    return;
  }
  CloseMasterReady();
  master_ready_ = Fd(ends[0]);
  const Fd child_end(ends[1]);
  auto started = options_.platform.StartMaster({.listen = options_.listen,
                                                .insecure = options_.insecure,
                                                .resumes = std::exchange(options_.resumes, false),
                                                .term = options_.term,
                                                .survivors = options_.survivors,
                                                .memo = options_.memo},
                                               child_end.get());
  if (!started.ok()) {
    Do(core::GiveUp{kExitTrainingFailed, std::string(started.status().message())});
    return;
  }
  master_.pidfd = std::move(started->pidfd);
  Keep(&master_, *started, ended);
  reactor_->Watch(master_ready_.get(), EPOLLIN, [this](uint32_t) { OnMasterReady(); })
      .IgnoreError();
}

void Launcher::CloseMasterReady() {
  if (master_ready_.is_open()) reactor_->Unwatch(master_ready_.get());
  master_ready_.Close();
}

// The pipe became readable: the master serves, or it has ended. Its end is reported by its pidfd.
void Launcher::OnMasterReady() {
  char told = 0;
  const bool serves = ::read(master_ready_.get(), &told, 1) == 1;
  CloseMasterReady();
  if (serves) Feed(core::MasterUp{});
}

void Launcher::Do(const core::StartAgent& action) {
  const std::string node = action.node;
  const auto ended = [this, node](int status) { OnAgentEnded(node, status); };
  Kept& slot = agents_[node];
  if (!Adopt(&slot, FindAgent(options_.platform.run_dir, node), ended)) {
    auto started = options_.platform.StartAgent(node, options_.incarnation + action.incarnation);
    if (!started.ok()) {
      Do(core::GiveUp{kExitTrainingFailed, std::string(started.status().message())});
      return;
    }
    slot.pidfd = std::move(started->pidfd);
    Keep(&slot, *started, ended);
    gone_.erase(node);
  }
  Feed(core::AgentUp{node});
}

void Launcher::Do(const core::CountRanks& action) {
  core::RanksCounted counted;
  counted.node = action.node;
  const auto page =
      agent::PageFile::Open(agent::PagePathIn(options_.platform.run_dir, action.node));
  if (page.ok()) {
    const agent::PageCensus census = agent::CountRanks(**page);
    counted.placed = census.placed;
    counted.living = census.living;
  }
  Feed(counted);
}

void Launcher::Do(const core::ReportNodeGone& action) {
  // With the pid, a late message about this agent cannot end the next one.
  gone_[action.node] = {action.node, action.evidence, agents_[action.node].last_pid};
  if (supervisor_ != nullptr) supervisor_->Send(gone_[action.node]);
}

void Launcher::Do(const core::KeeperNote& action) { options_.narrate(action.text); }

// A job may end before the launcher's stream is connected. Then no message reports the end.
void Launcher::Do(const core::ReadJobEnd&) {
  if (has_ended_) return;
  const auto status =
      StatusFromJournal({.id = options_.card.job_id, .run_dir = options_.platform.run_dir});
  if (status.ok() && status->exit_code.has_value()) {
    OnJobEnded(*status->exit_code, status->final_reason);
    return;
  }
  // If the run directory was removed, only the master's last message tells how the job ended. The
  // launcher may notice the master's exit before that message.
  if (!std::exchange(has_awaited_end_, true)) {
    reactor_->CallAt(agent::MonotonicNs() + kLastMessageNs, [this] { Do(core::ReadJobEnd{}); });
    return;
  }
  Do(core::GiveUp{kExitTrainingFailed,
                  status.ok() ? "the master ended before its job"
                              : "how the job ended cannot be read: " + status.problem().what});
}

void Launcher::Do(const core::GiveUp& action) {
  if (has_ended_) return;
  const std::string words = LastWords();
  if (!words.empty()) options_.narrate(words);
  AskAgentsToLeave({});
  if (master_.process.pid > 0) ::kill(master_.process.pid, SIGTERM);
  OnJobEnded(ExitCodeOf(action, words), action.why);
}

std::string Launcher::LastWords() const {
  constexpr size_t kTailBytes = 16 << 10;
  std::vector<std::string> logs = {options_.platform.run_dir + "/logs/master.log"};
  for (const auto& [node, kept] : agents_) {
    logs.push_back(Concat(options_.platform.run_dir, "/logs/", node, "/agent.log"));
  }
  for (const auto& [node, kept] : agents_) {
    const std::string path = agent::AgentFiles{options_.platform.run_dir, node}.ProblemJson();
    const nlohmann::json told = ParseJson(ReadText(path, kTailBytes));
    if (!told.is_object()) continue;
    return RenderProblem({.code = JsonText(told, "code"),
                          .what = JsonText(told, "message"),
                          .where = JsonText(told, "where"),
                          .why = JsonText(told, "cause"),
                          .fix = JsonText(told, "fix")});
  }
  for (const std::string& log : logs) {
    const std::string tail = ReadTail(log, kTailBytes);
    const size_t error = tail.rfind("error[PL-");
    if (error != std::string::npos) return tail.substr(error);
  }
  return "";
}

void Launcher::OnMasterEnded(int status) {
  options_.card.master = {};
  if (!has_ended_ && !is_stopping_) {
    KeepMasterEnd(options_.platform.run_dir, {.pid = master_.last_pid,
                                              .status = status,
                                              .is_known = master_.is_child,
                                              .at_ns = WallNow().nanoseconds()});
  }
  Feed(core::MasterExited{WIFEXITED(status), WEXITSTATUS(status), WasKilled(status)});
  FinishWhenQuiet();
}

void Launcher::OnAgentEnded(const std::string& node, int status) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  // An agent that its own host asked to leave ends by itself, which does not count as a death.
  const bool left = is_stopping_ && WIFEXITED(status);
  if (left) {
    bool is_last = true;
    for (const auto& [name, kept] : agents_) is_last = is_last && kept.process.pid == 0;
    if (is_last && !options_.card.has_master && !has_ended_) {
      const bool is_taken = notice_signal_ != 0 && code == kExitDone;
      OnJobEnded(is_taken ? 128 + notice_signal_ : code, "this host's agents have left the job");
    }
  } else {
    const agent::AgentFiles files{options_.platform.run_dir, node};
    const agent::Leave leave =
        WIFEXITED(status) ? agent::LeaveOf(files, agents_[node].last_pid) : agent::Leave{};
    Feed(core::AgentExited{.node = node,
                           .by_itself = WIFEXITED(status),
                           .code = code,
                           .was_killed = WasKilled(status),
                           .has_left = leave.has_left,
                           .is_job_over = leave.is_job_over});
  }
  FinishWhenQuiet();
}

void Launcher::OnSupervisor(wire::SupervisorEvent event) {
  if (std::holds_alternative<wire::SupervisorOpened>(event)) {
    NoteLink(true);
    TellServing();
    TellDeadNodes();
    TellNotice();
  } else if (std::holds_alternative<wire::SupervisorBroken>(event)) {
    NoteLink(false);
  } else if (const auto* wish = std::get_if<Wish>(&event)) {
    OnWish(*wish);
  } else if (const auto* ended = std::get_if<wire::JobEnded>(&event)) {
    told_end_ = JobEnd{ended->exit_code, ended->reason};
    OnJobEnded(ended->exit_code, ended->reason);
  }
}

void Launcher::NoteLink(bool is_linked) {
  is_linked_ = is_linked;
  Feed(core::LauncherLinked{is_linked});
}

void Launcher::OnWish(const Wish& wish) {
  is_draining_ = wish.intent == Wish::Intent::kDrain;
  // Other nodes belong to their hosts, and a platform starts its nodes itself.
  if (wish.intent != Wish::Intent::kRun || !options_.is_whole_job) return;
  for (const std::string& node : options_.card.nodes) {
    const std::optional<uint32_t> index = IndexOfNode(node);
    if (!index.has_value() || wish.absent.contains(*index)) continue;
    const uint32_t incarnation = wish.IncarnationOf(*index);
    if (incarnation > 0) Feed(core::NodeWanted{node, incarnation});
  }
}

void Launcher::TellServing() {
  if (const auto serving = std::exchange(options_.serving, nullptr)) serving();
}

void Launcher::TellDeadNodes() {
  for (const auto& [node, report] : gone_) supervisor_->Send(report);
}

void Launcher::OnJobEnded(int exit_code, const std::string& reason) {
  if (has_ended_) return;
  has_ended_ = true;
  end_ = {exit_code, reason};
  Feed(core::JobEnded{});
  const bool has_grace = is_stopping_ && !stop_asks_.is_forced();
  const int64_t patience = kLeaveNs + options_.notify_end_wait.nanoseconds() +
                           (has_grace ? options_.spec.timers.stop_grace.nanoseconds() : 0);
  kill_timer_ = reactor_->CallAt(agent::MonotonicNs() + patience, [this] { KillLeftovers(); });
  FinishWhenQuiet();
}

bool Launcher::IsQuiet() const {
  for (const auto& [node, kept] : agents_) {
    if (kept.process.pid != 0) return false;
  }
  return master_.process.pid == 0;
}

void Launcher::FinishWhenQuiet() {
  if (!has_ended_ || !IsQuiet()) return;
  // An agent that is not restarted leaves its ranks without an agent.
  for (const auto& [node, kept] : agents_) KillRanks(options_.platform.run_dir, node);
  reactor_->Stop();
}

// Ranks first, because a stuck agent cannot end them any more.
void Launcher::KillLeftovers() {
  for (const auto& [node, kept] : agents_) {
    KillRanks(options_.platform.run_dir, node);
    if (kept.process.pid > 0) ::kill(kept.process.pid, SIGKILL);
  }
  if (master_.process.pid > 0) ::kill(master_.process.pid, SIGKILL);
  if (stuck_timer_ != 0) return;
  stuck_timer_ = reactor_->CallAt(agent::MonotonicNs() + kKilledNs, [this] { LeaveStuck(); });
}

void Launcher::LeaveStuck() {
  const auto tell = [this](const std::string& who, pid_t pid) {
    if (pid <= 0) return;
    options_.narrate(Concat(who, " (process ", pid,
                            ") has been killed and does not end: it sleeps in the kernel, as on a "
                            "disk or file system that does not answer, and ends when that does."));
  };
  for (const auto& [node, kept] : agents_) tell("The agent of " + node, kept.process.pid);
  tell("The master", master_.process.pid);
  reactor_->Stop();
}

}  // namespace paceline::cli
