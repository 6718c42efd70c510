#include "paceline/agent/memory/claim_desk.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>
#include <variant>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/host_text.h"
#include "paceline/base/log.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

// How long a release waits for storage. If storage hangs, the claim stays in the directory and
// expires.
constexpr Duration kReleaseMax = Duration::Seconds(1);

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> text{};
  ::gmtime_r(&now, &parts);
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

uint64_t PidSpace() {
  struct stat found {};
  return ::stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

}  // namespace

DirectoryClaim ClaimOfThisProcess(const std::string& job_id, const std::string& boot_id) {
  const std::string host = HostName();
  return {.job_id = job_id,
          .host = host.empty() ? "?" : host,
          .boot_id = boot_id,
          .pid_space = PidSpace(),
          .pid = ::getpid(),
          .start_ticks = StartTimeOf(::getpid()),
          .since = UtcNow()};
}

core::WriterLife LifeOf(const DirectoryClaim& claim) {
  const bool is_here = !claim.boot_id.empty() && claim.boot_id == BootId() &&
                       claim.pid_space != 0 && claim.pid_space == PidSpace() && claim.pid > 0;
  if (!is_here) return core::WriterLife::kNotSeen;
  const auto pid = static_cast<pid_t>(claim.pid);
  const uint64_t start = StartTimeOf(pid);
  if (start != 0) {
    const bool is_it = start == claim.start_ticks && IsAlive({pid, start});
    return is_it ? core::WriterLife::kLives : core::WriterLife::kGone;
  }
  // /proc may hide processes of other users.
  const bool is_there = ::kill(pid, 0) == 0 || errno == EPERM;
  return is_there ? core::WriterLife::kLives : core::WriterLife::kGone;
}

ClaimDesk::ClaimDesk(Reactor& reactor, const Setup& setup, LocalTier* tier, Listener listener)
    : reactor_(reactor),
      self_(ClaimOfThisProcess(setup.job_id, setup.boot_id)),
      listener_(std::move(listener)),
      machine_(self_),
      mailbox_(std::make_shared<Mailbox>()),
      worker_(std::make_unique<CheckpointWorker>(
          [mailbox = mailbox_](CheckpointDone done) {
            const std::lock_guard lock(mailbox->mutex);
            ClaimDesk* const desk = mailbox->desk;
            if (desk == nullptr) return;
            if (const auto* claim = std::get_if<ClaimDone>(&done)) {
              desk->reactor_.Post([desk, done = *claim] { desk->OnDone(done); });
            } else if (const auto* looked = std::get_if<RescueDone>(&done)) {
              desk->reactor_.Post([desk, done = *looked] { desk->listener_.looked(done); });
            }
          },
          setup.store_host, tier)) {
  mailbox_->desk = this;
}

ClaimDesk::~ClaimDesk() {
  if (timer_ != 0) reactor_.Cancel(timer_);
  {
    const std::lock_guard lock(mailbox_->mutex);
    mailbox_->desk = nullptr;
  }
  // If storage hangs, the worker's thread cannot be joined. It ends with the process.
  if (!worker_->AwaitIdle(kReleaseMax)) (void)worker_.release();
}

void ClaimDesk::Want(const std::string& directory) {
  if (directory_ != directory) {
    if (!directory_.empty()) Feed(core::ClaimReleased{});
    directory_ = directory;
  }
  Feed(core::ClaimWanted{});
}

std::string ClaimDesk::Other() const {
  return machine_.other().has_value() ? core::Say(*machine_.other()) : "another job";
}

void ClaimDesk::Missed() { Feed(core::ClaimMissed{}); }

void ClaimDesk::Taken(const std::string& problem) {
  std::string_view by = problem;
  TakePrefix(&by, kRefusedForGood);
  // "job X (process 17 on h) saves to DIR", or "job X has saved to DIR".
  const size_t end = std::min(by.find(" saves to "), by.find(" has saved to "));
  Feed(core::ClaimTaken{std::string(by.substr(0, end))});
}

void ClaimDesk::Release() {
  Feed(core::ClaimReleased{});
  (void)worker_->AwaitIdle(kReleaseMax);
}

void ClaimDesk::OnDone(const ClaimDone& done) {
  if (done.task.directory != directory_) return;
  if (std::exchange(problem_, done.problem) != done.problem && !done.problem.empty()) {
    LogWarning("claim_unknown", {{"why", done.problem}});
  }
  if (done.task.claim.has_value())
    return Feed(core::ClaimWritten{done.is_passed, done.problem, done.is_refused});
  core::ClaimLooked looked{.claim = done.found, .foreign = done.foreign, .problem = done.problem};
  if (done.found.has_value()) looked.life = LifeOf(*done.found);
  Feed(looked);
}

void ClaimDesk::Feed(const core::ClaimEvent& event) {
  const core::ClaimMachine::Answer before = may();
  for (const core::ClaimAction& action : machine_.Step(MonotonicNow(), event)) {
    std::visit([this](const auto& one) { Do(one); }, action);
  }
  if (timer_ != 0) reactor_.Cancel(std::exchange(timer_, 0));
  if (const Instant deadline = machine_.NextDeadline(); !deadline.is_max()) {
    timer_ = reactor_.CallAt(deadline.nanoseconds(), [this] {
      timer_ = 0;
      Feed(core::ClaimTimePassed{});
    });
  }
  const bool has_news = before != may() || told_ != waits_for();
  told_ = waits_for();
  // The loop calls the listener later: the caller of Want() reads may() itself, and must not be
  // called back inside of its own call.
  if (has_news) reactor_.Post([this] { listener_.changed(); });
}

void ClaimDesk::Do(const core::LookAtClaim&) {
  worker_->Add(ClaimTask{.directory = directory_, .job_id = self_.job_id});
}

void ClaimDesk::Do(const core::WriteClaim& action) {
  worker_->Add(ClaimTask{directory_, action.claim, action.over});
}

void ClaimDesk::Do(const core::RemoveClaim& action) {
  worker_->Add(UnclaimTask{directory_, action.claim});
}

void ClaimDesk::Do(const core::SayOfClaim& action) {
  LogWarning("claim", {{"directory", directory_}, {"what", action.text}});
  listener_.says(Concat(directory_, ": ", action.text));
}

}  // namespace paceline::agent
