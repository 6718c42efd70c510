#pragma once

// How fast a node's checkpoints may go to its disks and to storage. The whole policy is here.
//
// The worker's thread yields to everything else: it runs with a nice value of 10 and at the lowest
// priority of its disk class. (Not in the idle class: beside a training that never stops reading
// its data, nothing would ever be durable.) And it has a budget of bytes a second, because a fast
// disk takes memory bandwidth and interrupts from the training, however nice who asked is:
//
//   somebody waits, or the job ends     none: as fast as can be
//   every="30s"                         so that it is done in half of the time between two
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

// `bytes`: of all that this node writes for one checkpoint. 0: no limit.
inline uint64_t BytesPerSecond(const PersistPolicy& policy, uint64_t bytes, bool is_urgent) {
  if (is_urgent) return 0;
  if (policy.kind != PersistPolicy::Kind::kTime) return kCalmBytesPerSecond;
  const double half = policy.time.ToSecondsF() / 2;
  if (half <= 0) return 0;
  return std::max(kLeastBytesPerSecond, static_cast<uint64_t>(static_cast<double>(bytes) / half));
}

}  // namespace paceline::agent
