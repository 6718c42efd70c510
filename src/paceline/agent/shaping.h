#pragma once

// Limits how fast a node's checkpoints go to its disks and to storage. The whole policy is here.
//
// The worker's thread has a nice value of 10 and the lowest priority of its disk class. (Not the
// idle class: beside a training that reads data all the time, nothing would become durable.) It
// also has a budget of bytes a second. Without one, writes to a fast disk take memory bandwidth and
// cause interrupts at any nice value:
//
//   a rank waits, or the job ends       no limit
//   every="30s"                         done in half of the interval
//   otherwise                           512 MiB a second
//
// and never less than 64 MiB a second.

#include <algorithm>
#include <cstdint>

#include "paceline/model/checkpoint.h"

namespace paceline::agent {

inline constexpr uint64_t kCalmBytesPerSecond = uint64_t{512} << 20;
inline constexpr uint64_t kLeastBytesPerSecond = uint64_t{64} << 20;
inline constexpr int kWorkerNice = 10;

// `bytes` is what this node writes for one checkpoint. Returns 0 for no limit.
inline uint64_t BytesPerSecond(const PersistPolicy& policy, uint64_t bytes, bool is_urgent) {
  if (is_urgent) return 0;
  if (policy.kind != PersistPolicy::Kind::kTime) return kCalmBytesPerSecond;
  const double half = policy.time.ToSecondsF() / 2;
  if (half <= 0) return 0;
  return std::max(kLeastBytesPerSecond, static_cast<uint64_t>(static_cast<double>(bytes) / half));
}

}  // namespace paceline::agent
