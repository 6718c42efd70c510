#pragma once

// Limits a thread's rate of bytes, so that background work does not slow the training. The thread
// calls Take before it moves bytes, and Take sleeps if the thread is ahead of its rate.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

namespace paceline::ckpt {

class Pacer {
 public:
  // A monotonic clock in nanoseconds, and a sleep.
  struct Clock {
    std::function<int64_t()> now_ns;
    std::function<void(int64_t)> sleep_ns;
  };

  explicit Pacer(Clock clock) : clock_(std::move(clock)) {}

  // Sets the rate in bytes a second; 0: no limit. Callable from any thread; a sleeping Take notices
  // it soon.
  void SetRate(uint64_t bytes_per_second) { rate_ = bytes_per_second; }
  uint64_t rate() const { return rate_; }

  // Called before `bytes` are moved. Unused time is not saved up: after a pause the thread begins
  // at once, but at the same rate.
  void Take(uint64_t bytes) {
    int64_t now = clock_.now_ns();
    while (rate_ != 0 && free_at_ns_ > now) {
      clock_.sleep_ns(std::min(free_at_ns_ - now, kNapNs));
      now = clock_.now_ns();
    }
    const uint64_t rate = rate_;
    if (rate == 0) return;
    const double cost_ns = static_cast<double>(bytes) * 1e9 / static_cast<double>(rate);
    free_at_ns_ = std::max(free_at_ns_, now) + static_cast<int64_t>(cost_ns);
  }

 private:
  static constexpr int64_t kNapNs = 20'000'000;

  const Clock clock_;
  std::atomic<uint64_t> rate_ = 0;
  int64_t free_at_ns_ = 0;
};

}  // namespace paceline::ckpt
