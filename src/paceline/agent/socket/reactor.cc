#include "paceline/agent/socket/reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <utility>

#include "paceline/base/status_macros.h"

namespace paceline::agent {
namespace {

constexpr int kEventsPerWait = 64;
constexpr int64_t kNsPerSecond = 1'000'000'000;
// Ids of the loop's own descriptors.
constexpr uint64_t kTimerWatch = 0;
constexpr uint64_t kWakeWatch = 1;

absl::Status AddToEpoll(int epoll, int fd, uint32_t events, uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    return absl::ErrnoToStatus(errno, "epoll_ctl add");
  }
  return absl::OkStatus();
}

}  // namespace

int64_t MonotonicNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

Instant MonotonicNow() { return Instant::FromNanoseconds(MonotonicNs()); }

Reactor::Reactor() : next_watch_id_(kWakeWatch + 1) {}

absl::StatusOr<std::unique_ptr<Reactor>> Reactor::Create() {
  std::unique_ptr<Reactor> reactor(new Reactor());
  reactor->epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  reactor->timer_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  reactor->wake_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!reactor->epoll_.is_open() || !reactor->timer_.is_open() || !reactor->wake_.is_open()) {
    return absl::ErrnoToStatus(errno, "cannot make an event loop");
  }
  const int epoll = reactor->epoll_.get();
  RETURN_IF_ERROR(AddToEpoll(epoll, reactor->timer_.get(), EPOLLIN, kTimerWatch));
  RETURN_IF_ERROR(AddToEpoll(epoll, reactor->wake_.get(), EPOLLIN, kWakeWatch));
  return reactor;
}

absl::Status Reactor::Watch(int fd, uint32_t epoll_events, FdCallback callback) {
  const WatchId id = next_watch_id_++;
  RETURN_IF_ERROR(AddToEpoll(epoll_.get(), fd, epoll_events, id));
  watches_[fd] = id;
  watched_[id] = std::make_shared<FdCallback>(std::move(callback));
  return absl::OkStatus();
}

void Reactor::Change(int fd, uint32_t epoll_events) {
  const auto found = watches_.find(fd);
  if (found == watches_.end()) return;
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = found->second;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Reactor::Unwatch(int fd) {
  const auto found = watches_.find(fd);
  if (found == watches_.end()) return;
  watched_.erase(found->second);
  watches_.erase(found);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Reactor::TimerId Reactor::CallAt(int64_t at_ns, Callback callback) {
  const TimerId id = next_timer_id_++;
  timers_[{at_ns, id}] = std::move(callback);
  timer_times_[id] = at_ns;
  return id;
}

void Reactor::Cancel(TimerId id) {
  auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return;
  timers_.erase({found->second, id});
  timer_times_.erase(found);
}

void Reactor::Post(Callback callback) {
  {
    std::lock_guard<std::mutex> lock(posted_mutex_);
    posted_.push_back(std::move(callback));
  }
  const uint64_t one = 1;
  // The counter cannot overflow in practice, and a full one is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

void Reactor::ArmTimer() {
  const int64_t due_ns = timers_.empty() ? 0 : timers_.begin()->first.first;
  if (due_ns == armed_ns_) return;
  itimerspec spec{};
  if (due_ns != 0) {
    // 1 ns and not 0: an all-zero time disarms.
    const int64_t at = due_ns > 0 ? due_ns : 1;
    spec.it_value.tv_sec = at / kNsPerSecond;
    spec.it_value.tv_nsec = at % kNsPerSecond;
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
  armed_ns_ = due_ns;
}

void Reactor::RunDueTimers() {
  const int64_t now = MonotonicNs();
  while (!timers_.empty() && timers_.begin()->first.first <= now && !stopped_) {
    auto due = timers_.extract(timers_.begin());
    timer_times_.erase(due.key().second);
    due.mapped()();
  }
}

void Reactor::RunPosted() {
  std::deque<Callback> batch;
  {
    std::lock_guard<std::mutex> lock(posted_mutex_);
    batch.swap(posted_);
  }
  for (Callback& callback : batch) callback();
}

void Reactor::Run() {
  std::array<epoll_event, kEventsPerWait> events;
  while (!stopped_) {
    ArmTimer();
    const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerWait, -1);
    for (int i = 0; i < count && !stopped_; ++i) {
      const WatchId id = events[i].data.u64;
      if (id == kTimerWatch || id == kWakeWatch) {
        const int fd = id == kTimerWatch ? timer_.get() : wake_.get();
        uint64_t ignored = 0;
        [[maybe_unused]] const ssize_t got = ::read(fd, &ignored, sizeof(ignored));
        if (id == kTimerWatch) armed_ns_ = 0;
        continue;
      }
      auto found = watched_.find(id);
      if (found == watched_.end()) continue;
      const std::shared_ptr<FdCallback> callback = found->second;
      (*callback)(events[i].events);
    }
    if (!stopped_) RunPosted();
    if (!stopped_) RunDueTimers();
  }
}

}  // namespace paceline::agent
