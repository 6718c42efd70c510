#include "paceline/master/notify/notifier.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/base/fd.h"
#include "paceline/base/json.h"
#include "paceline/base/log.h"
#include "paceline/base/spawn.h"
#include "paceline/base/text.h"
#include "paceline/base/utf8.h"

namespace paceline::master {
namespace {

constexpr size_t kSaidMax = 500;  // last bytes of the command's output, for the log
constexpr int kLookMs = 200;      // between looks at whether the master ends
constexpr std::chrono::seconds kKilledWithin{2};

// A file in memory, so that the command may read as late and as little as it likes.
Fd FileOf(const std::string& line) {
  Fd file(::memfd_create("notice", MFD_CLOEXEC));
  if (!file.is_open()) return file;
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t written = ::write(file.get(), line.data() + done, line.size() - done);
    if (written <= 0) return Fd();
    done += static_cast<size_t>(written);
  }
  return ::lseek(file.get(), 0, SEEK_SET) == 0 ? std::move(file) : Fd();
}

// Keeps the end of what the command says.
void Hear(int output, std::string* said) {
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t count = ::read(output, part.data(), part.size());
    if (count <= 0) return;
    said->append(part.data(), static_cast<size_t>(count));
    if (said->size() > kSaidMax) said->erase(0, said->size() - kSaidMax);
  }
}

std::string EndText(int status) {
  if (WIFSIGNALED(status)) return Concat("it was killed by signal ", WTERMSIG(status));
  return Concat("it ended with exit code ", WEXITSTATUS(status));
}

}  // namespace

Notifier::Notifier(NotifyOptions options) : options_(std::move(options)) {
  thread_ = std::thread([this] { Work(); });
}

Notifier::~Notifier() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = Clock::now() + std::chrono::nanoseconds(options_.end_wait.nanoseconds());
  }
  changed_.notify_all();
  thread_.join();
}

void Notifier::Post(nlohmann::ordered_json notice) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(notice));
    if (queue_.size() > kQueueMax) {
      queue_.pop_front();
      ++dropped_since_;
      ++dropped_;
    }
  }
  changed_.notify_all();
}

void Notifier::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_.has_value() || !queue_.empty(); });
    if (queue_.empty()) return;
    if (ending_.has_value() && Clock::now() >= *ending_) {
      LogWarning("notify_dropped", {{"notices", queue_.size()}, {"why", "the master ends"}});
      return;
    }
    nlohmann::ordered_json notice = std::move(queue_.front());
    queue_.pop_front();
    notice["dropped"] = std::exchange(dropped_since_, 0);
    lock.unlock();
    Tell(Run(PrintJson(notice) + "\n"));
    lock.lock();
  }
}

// A command that fails each time is told once, until it works again.
void Notifier::Tell(const std::string& why) {
  if (why.empty()) {
    ++done_;
    const uint64_t failed = std::exchange(failed_in_a_row_, 0);
    if (failed > 0) LogInfo("notify_works_again", {{"failed", failed}});
    return;
  }
  ++failed_;
  if (failed_in_a_row_++ > 0) return;
  LogWarning("notify_failed", {{"command", options_.command.front()}, {"why", why}});
}

std::string Notifier::Run(const std::string& line) {
  const Fd input = FileOf(line);
  std::array<int, 2> ends{-1, -1};
  if (!input.is_open() || ::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Concat("the master has no files for it: ", std::strerror(errno));
  }
  const Fd output(ends[0]);
  Fd child_end(ends[1]);
  ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
  began_ = Clock::now();
  auto child = SpawnDetached({.argv = options_.command,
                              .env = CurrentEnvironment(),
                              .cwd = options_.cwd,
                              .input_fd = input.get(),
                              .output_fd = child_end.get()});
  child_end.Close();
  if (!child.ok()) return std::string(child.status().message());
  std::string said;
  const std::optional<Limit> reached = AwaitEnd(child->pidfd.get(), output.get(), &said);
  if (reached.has_value()) {
    ::kill(-child->pid, SIGKILL);  // the child leads its session and so its group
    pollfd dead{.fd = child->pidfd.get(), .events = POLLIN, .revents = 0};
    ::poll(&dead, 1, static_cast<int>(std::chrono::milliseconds(kKilledWithin).count()));
  }
  const int status = ReapProcess(child->pid);
  if (!reached.has_value() && status == 0) return "";
  const std::string how = reached.has_value() ? KilledText(*reached) : EndText(status);
  const std::string_view words = Trimmed(said);
  return words.empty() ? how : Concat(how, "; it said: ", CleanText(std::string(words)));
}

std::string Notifier::KilledText(const Limit& reached) const {
  if (reached.is_end_of_master) return "it was killed because the master ended";
  return Concat("it was killed after ", ToString(options_.timeout));
}

std::optional<Notifier::Limit> Notifier::AwaitEnd(int pidfd, int output, std::string* said) {
  std::array<pollfd, 2> both{pollfd{.fd = pidfd, .events = POLLIN, .revents = 0},
                             pollfd{.fd = output, .events = POLLIN, .revents = 0}};
  for (;;) {
    const Limit limit = LimitNow();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit.at - Clock::now()).count();
    if (left <= 0) return limit;
    ::poll(both.data(), both.size(), static_cast<int>(std::min<int64_t>(left, kLookMs)));
    if (both[1].revents != 0) Hear(output, said);
    // Closed by the command, which may run on.
    if ((both[1].revents & POLLHUP) != 0) both[1].fd = -1;
    if (both[0].revents != 0) return std::nullopt;
  }
}

Notifier::Limit Notifier::LimitNow() {
  const Clock::time_point own = began_ + std::chrono::nanoseconds(options_.timeout.nanoseconds());
  const std::lock_guard lock(mutex_);
  if (ending_.has_value() && *ending_ < own) return {.at = *ending_, .is_end_of_master = true};
  return {.at = own, .is_end_of_master = false};
}

}  // namespace paceline::master
