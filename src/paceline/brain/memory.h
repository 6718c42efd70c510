#pragma once

// When a node will be out of memory, from what its ranks used until now, and how much it should
// get.
//
// The use is known by windows: the largest value of each. Growth is a line through the windows by
// the estimator of Theil and Sen, the median of the slopes of all pairs (P. K. Sen, Estimates of
// the Regression Coefficient Based on Kendall's Tau, 1968). A few windows with a large value, such
// as those of evaluation, do not bend it. A single step up, such as a buffer that is made once, is
// no growth: both halves of the windows must grow.

#include <cstddef>
#include <optional>
#include <span>

namespace paceline::brain {

// The windows that a line is fitted to. The caller keeps the newest ones of one process.
inline constexpr size_t kMemoryWindowsLeast = 8;
inline constexpr size_t kMemoryWindowsMost = 48;

struct MemoryWindow {
  double at = 0;     // seconds; the end of the window, by any clock
  double bytes = 0;  // the largest use in it
};

// Growth that is believed.
struct MemoryGrowth {
  double bytes_per_second = 0;  // > 0
  double bytes = 0;             // the use at the last window: the line, and above it the residual
                                // that nine of ten windows stay below

  // The use that is expected so many seconds after the last window.
  double After(double seconds) const { return bytes + bytes_per_second * seconds; }
  // Seconds after the last window until the limit is reached; 0 if it is reached.
  double Until(double limit) const;
};

// `windows` by rising time. None if they are too few, or do not grow beyond their own noise.
std::optional<MemoryGrowth> GrowthOf(std::span<const MemoryWindow> windows);

// What a job does against growth costs time: it waits for a checkpoint, then restarts.
struct MemoryQuestion {
  double limit = 0;      // bytes
  double next_save = 0;  // seconds until a checkpoint
  double change = 0;     // seconds that a restart takes
  double outlook = 0;    // seconds that the job still trains
  double most = 0;       // bytes; no limit is set above
};

// A limit that is due must be set before it is too late: the time until the limit is less than
// twice the time that the job needs. The new limit, in bytes: what the growth predicts for the end
// of the outlook and a tenth more; at least a quarter more than the old one; at most `most`. None:
// nothing is due, or the limit is at `most` already.
std::optional<double> DueLimit(const MemoryGrowth& growth, const MemoryQuestion& question);

// The node's memory limit after the kernel has killed its ranks at `limit` bytes: twice `limit`, or
// the predicted need if that is larger, and never above `most`. None: `limit` was `most` already,
// so a restart would only be killed again.
std::optional<double> LimitAfterKill(double limit, const std::optional<MemoryGrowth>& growth,
                                     const MemoryQuestion& question);

}  // namespace paceline::brain
