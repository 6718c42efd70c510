#pragma once

// One epoll loop: file descriptors, deadlines, and work posted by other threads, all handled on the
// thread that calls Run. It knows nothing of training. The agent, the launcher and the console each
// have one.
//
// Concurrency: Post may be called from any thread, everything else only from the loop's thread (or
// before Run). A callback may unwatch any descriptor, also its own, and may stop the loop.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/fd.h"
#include "paceline/base/instant.h"

namespace paceline::agent {

// CLOCK_MONOTONIC in nanoseconds.
int64_t MonotonicNs();
// As an Instant.
Instant MonotonicNow();

class Reactor {
 public:
  using FdCallback = std::function<void(uint32_t epoll_events)>;
  using Callback = std::function<void()>;
  using TimerId = uint64_t;

  static absl::StatusOr<std::unique_ptr<Reactor>> Create();

  // The caller owns the descriptor and must unwatch it before closing it.
  absl::Status Watch(int fd, uint32_t epoll_events, FdCallback callback);
  void Change(int fd, uint32_t epoll_events);
  void Unwatch(int fd);

  // Calls once, at or after `at_ns` of MonotonicNs. Ids are never reused and never 0.
  TimerId CallAt(int64_t at_ns, Callback callback);
  void Cancel(TimerId id);

  void Post(Callback callback);

  void Run();
  void Stop() { stopped_ = true; }

 private:
  // Ids are never reused, as descriptors are: an event of a closed descriptor may still be in the
  // current batch of events when its number belongs to another file.
  using WatchId = uint64_t;
  Reactor();
  void ArmTimer();
  void RunDueTimers();
  void RunPosted();

  Fd epoll_;
  Fd timer_;
  Fd wake_;
  bool stopped_ = false;
  // shared_ptr: a callback stays alive while it runs, even if it unwatches itself.
  std::map<WatchId, std::shared_ptr<FdCallback>> watched_;
  std::map<int, WatchId> watches_;  // by descriptor
  WatchId next_watch_id_;
  std::map<std::pair<int64_t, TimerId>, Callback> timers_;
  std::map<TimerId, int64_t> timer_times_;
  TimerId next_timer_id_ = 1;
  int64_t armed_ns_ = 0;
  std::mutex posted_mutex_;
  std::deque<Callback> posted_ ABSL_GUARDED_BY(posted_mutex_);
};

}  // namespace paceline::agent
