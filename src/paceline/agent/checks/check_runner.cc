#include "paceline/agent/checks/check_runner.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "paceline/agent/checks/check_line.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json_field.h"
#include "paceline/base/log.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr size_t kCheckOutputMax = 64 << 10;
constexpr size_t kMemoryMax = 64 << 10;
constexpr int kTriesMax = 2;

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// How the file is started; empty, with the reason, if it cannot be.
std::vector<std::string> CommandOf(const std::string& path, const std::string& python,
                                   std::string* why) {
  if (path == kHostCheck) return {"/proc/self/exe", "doctor", "--measure"};
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) {
    *why = Concat(path, ": ", std::strerror(errno));
    return {};
  }
  if (!S_ISREG(file.st_mode)) {
    *why = Concat(path, " is no file");
    return {};
  }
  if (::access(path.c_str(), X_OK) == 0) return {path};
  if (EndsWith(path, ".py")) return {python, path};
  if (EndsWith(path, ".sh")) return {"/bin/sh", path};
  *why = Concat(path, " is not executable");
  return {};
}

}  // namespace

CheckRunner::CheckRunner(Reactor& reactor, CheckSetup setup, Tell tell)
    : reactor_(reactor), setup_(std::move(setup)), tell_(std::move(tell)) {
  if (setup_.checks.empty()) return;
  state_.state = NodeCheck::State::kRunning;
  Remember();
}

CheckRunner::~CheckRunner() {
  Close();
  for (const auto& [pid, killed] : killed_) reactor_.Unwatch(killed.pidfd.get());
}

void CheckRunner::Start() {
  if (state_.state == NodeCheck::State::kRunning) Try();
}

void CheckRunner::Again(uint32_t round) {
  if (round <= state_.round) return;
  LogInfo("checks_again", {{"round", round}});
  Close();
  Forget();  // an agent that is started now would else know the older result
  numbers_ = nlohmann::json::object();
  remarks_.clear();
  next_ = 0;
  tries_ = 0;
  state_ = {.state = NodeCheck::State::kRunning, .round = round};
  if (setup_.checks.empty()) return Finish(NodeCheck::State::kPassed, "");
  Try();
}

void CheckRunner::Try() {
  timer_ = 0;
  const std::string& path = setup_.checks[next_];
  std::string why;
  SpawnRequest request{.argv = CommandOf(path, setup_.python, &why),
                       .env = {},
                       .cwd = setup_.cwd,
                       .output_path = LogPath()};
  if (request.argv.empty()) return Judge(false, std::move(why), nullptr);
  for (const auto& [name, value] : setup_.env) request.env.push_back(Concat(name, "=", value));
  ::unlink(request.output_path.c_str());
  absl::StatusOr<SpawnedProcess> spawned = SpawnDetached(request);
  if (!spawned.ok()) return Judge(false, std::string(spawned.status().message()), nullptr);
  process_ = *std::move(spawned);
  LogInfo("check_began", {{"check", path}, {"pid", process_.pid}, {"try", tries_ + 1}});
  const absl::Status watched =
      reactor_.Watch(process_.pidfd.get(), EPOLLIN, [this](uint32_t) { OnEnd(); });
  if (!watched.ok()) return Judge(false, std::string(watched.message()), nullptr);
  timer_ = reactor_.CallAt(MonotonicNs() + setup_.timeout.nanoseconds(), [this] { OnLate(); });
}

void CheckRunner::OnEnd() {
  const int status = ReapProcess(process_.pid);
  if (status < 0) return;
  // What it started ends with it.
  ::kill(-process_.pid, SIGKILL);
  process_.pid = 0;
  CheckLine line = ReadCheck(status, ReadTail(LogPath(), kCheckOutputMax));
  Judge(line.ok, std::move(line.reason), std::move(line.numbers));
}

void CheckRunner::OnLate() {
  timer_ = 0;
  Judge(false, Concat("it was not over after ", ToString(setup_.timeout)), nullptr);
}

void CheckRunner::Judge(bool ok, std::string reason, nlohmann::json numbers) {
  Close();
  ++tries_;
  LogInfo("check_ended", {{"check", setup_.checks[next_]}, {"ok", ok}, {"reason", reason}});
  if (numbers.is_object()) numbers_[Name()] = std::move(numbers);
  if (!ok && tries_ < kTriesMax) {
    timer_ = reactor_.CallAt(MonotonicNs() + setup_.retry_after.nanoseconds(), [this] { Try(); });
    return;
  }
  if (!ok) return Finish(NodeCheck::State::kFailed, Concat(Name(), ": ", reason));
  if (!reason.empty()) remarks_ += Concat(remarks_.empty() ? "" : "; ", Name(), ": ", reason);
  tries_ = 0;
  if (++next_ < setup_.checks.size()) return Try();
  Finish(NodeCheck::State::kPassed, remarks_);
}

void CheckRunner::Finish(NodeCheck::State state, std::string reason) {
  state_.state = state;
  state_.reason = std::move(reason);
  std::string numbers = numbers_.empty() ? "" : PrintJson(numbers_);
  if (numbers.size() <= kCheckNumbersMax) state_.numbers = std::move(numbers);
  if (state == NodeCheck::State::kPassed && !setup_.checks.empty()) {
    const nlohmann::json memory{{"schema", "paceline.node_check/1"}, {"boot_id", setup_.boot_id},
                                {"checks", setup_.checks},           {"reason", state_.reason},
                                {"numbers", state_.numbers},         {"round", state_.round}};
    const absl::Status kept = ReplaceFile(setup_.memory, PrintJson(memory), 0600);
    if (!kept.ok()) LogWarning("check_kept", {{"why", kept}});
  }
  tell_(state_);
}

// Ends the process of the running try.
void CheckRunner::Close() {
  if (timer_ != 0) reactor_.Cancel(timer_);
  timer_ = 0;
  if (process_.pidfd.is_open()) reactor_.Unwatch(process_.pidfd.get());
  if (process_.pid > 0) {
    const pid_t pid = process_.pid;
    ::kill(-pid, SIGKILL);
    const int fd = process_.pidfd.get();
    killed_[pid] = std::move(process_);
    reactor_.Watch(fd, EPOLLIN, [this, pid](uint32_t) { Reap(pid); }).IgnoreError();
  }
  process_ = SpawnedProcess();
}

void CheckRunner::Reap(pid_t pid) {
  if (ReapProcess(pid) < 0) return;
  reactor_.Unwatch(killed_[pid].pidfd.get());
  killed_.erase(pid);
}

// Takes the result of an earlier agent of this boot if these checks passed then.
void CheckRunner::Remember() {
  const nlohmann::json memory = ParseJson(ReadText(setup_.memory, kMemoryMax));
  const bool is_same = memory.is_object() && JsonText(memory, "boot_id") == setup_.boot_id &&
                       memory.value("checks", nlohmann::json()) == nlohmann::json(setup_.checks);
  if (!is_same) return;
  state_ = {.state = NodeCheck::State::kPassed,
            .reason = JsonText(memory, "reason"),
            .numbers = JsonText(memory, "numbers"),
            .round = static_cast<uint32_t>(
                std::clamp<double>(JsonNumber(memory, "round"), 0, UINT32_MAX))};
}

void CheckRunner::Forget() { ::unlink(setup_.memory.c_str()); }

std::string CheckRunner::Name() const {
  const std::string& path = setup_.checks[next_];
  return path.substr(path.rfind('/') + 1);
}

std::string CheckRunner::LogPath() const {
  return Concat(setup_.log_dir, "/check-", Name(), ".log");
}

}  // namespace paceline::agent
