#include "paceline/cli/trace/host_clocks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "paceline/diagnose/wait_graph.h"

namespace paceline::cli {
namespace {

// The attempt, the group with its members, and the number in that group.
using CollectiveName = std::tuple<uint64_t, std::string_view, uint64_t>;
// When a host's first rank has left each of them, by its monotonic clock.
using Ends = std::map<CollectiveName, int64_t>;

std::vector<Ends> EndsByHost(size_t hosts, const std::vector<HostedRing>& rings) {
  std::vector<Ends> all(hosts);
  for (const HostedRing& one : rings) {
    for (const FlightEntry& entry : one.ring->entries) {
      const bool counts = entry.kind == FlightKind::kCollective && entry.is_complete() &&
                          diagnose::IsMeeting(entry.operation);
      if (!counts) continue;
      const CollectiveName name{one.ring->generation, entry.group, entry.sequence};
      const auto [it, is_new] = all[one.host].try_emplace(name, entry.completed_ns);
      if (!is_new) it->second = std::min(it->second, entry.completed_ns);
    }
  }
  return all;
}

// The monotonic clock of `a` less that of `b`; none: they have too few collectives in common.
std::optional<int64_t> Difference(const Ends& a, const Ends& b) {
  std::vector<int64_t> found;
  for (const auto& [name, end] : a) {
    const auto other = b.find(name);
    if (other != b.end()) found.push_back(end - other->second);
  }
  if (found.size() < kEqualsMin) return std::nullopt;
  const auto middle = found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2);
  std::nth_element(found.begin(), middle, found.end());
  return *middle;
}

}  // namespace

HostClocks AlignHosts(const std::vector<HostNow>& hosts, const std::vector<HostedRing>& rings) {
  HostClocks clocks;
  for (const HostNow& host : hosts) {
    clocks.ahead_ns.push_back(host.wall.nanoseconds() - host.monotonic_ns);
  }
  const std::vector<Ends> ends = EndsByHost(hosts.size(), rings);
  std::vector<size_t> reached;
  std::vector<bool> is_aligned(hosts.size(), false);
  for (size_t root = 0; root < hosts.size(); ++root) {
    if (is_aligned[root]) continue;
    if (root != 0) clocks.unaligned.push_back(root);
    is_aligned[root] = true;
    reached = {root};
    for (size_t next = 0; next < reached.size(); ++next) {
      const size_t known = reached[next];
      for (size_t host = root + 1; host < hosts.size(); ++host) {
        if (is_aligned[host]) continue;
        const auto difference = Difference(ends[known], ends[host]);
        if (!difference.has_value()) continue;
        clocks.ahead_ns[host] = clocks.ahead_ns[known] + *difference;
        is_aligned[host] = true;
        reached.push_back(host);
      }
    }
  }
  return clocks;
}

}  // namespace paceline::cli
