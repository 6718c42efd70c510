#pragma once

// How fast a thread may move bytes, so that what it does beside a training is not felt there.
// Whoever moves bytes says so before, and is held up when it is ahead of its rate.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

namespace paceline::ckpt {

class Pacer {
 public:
  // Nanoseconds of a clock that only goes forward; holds the thread up for so many.
  struct Clock {
    std::function<int64_t()> now_ns;
    std::function<void(int64_t)> sleep_ns;
  };

  explicit Pacer(Clock clock) : clock_(std::move(clock)) {}

  // Bytes a second from now on; 0: no limit. From any thread: whoever is held up hears of it soon.
  void SetRate(uint64_t bytes_per_second) { rate_ = bytes_per_second; }
  uint64_t rate() const { return rate_; }

  // Before so many bytes are moved. Nothing is saved up while nothing is moved: a thread that was
  // idle begins at once, and goes no faster afterwards.
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
