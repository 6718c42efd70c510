#pragma once

// Brings the rings of several hosts onto one clock. Pure.
//
// The idea: no member of an all-reduce or a barrier can leave it before all have entered, so its
// ends on all hosts are close together, however far apart the hosts' clocks are. For two hosts with
// ranks in the same group, the difference of the ends of the same collective is the difference of
// their clocks, more or less by how much later one of them notices the end. That noise goes in both
// directions, so the median of all collectives is taken. A host without a group in common with the
// first one is brought onto its clock through others. Where no way leads to the first host, one
// host keeps its own wall clock and is named, and the others that can be compared with it follow
// it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "paceline/cli/trace/job_trace.h"

namespace paceline::cli {

struct HostedRing {
  size_t host = 0;  // in the list of hosts
  const RingSlice* ring = nullptr;
};

struct HostClocks {
  // By host: wall clock of the first host, less the host's monotonic clock.
  std::vector<int64_t> ahead_ns;
  std::vector<size_t> unaligned;  // whose own wall clock is believed; ascending
};

// Fewer collectives in common than that say little.
inline constexpr size_t kEqualsMin = 5;

// `hosts` has at least one.
HostClocks AlignHosts(const std::vector<HostNow>& hosts, const std::vector<HostedRing>& rings);

}  // namespace paceline::cli
