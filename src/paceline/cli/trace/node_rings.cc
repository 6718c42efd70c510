#include "paceline/cli/trace/node_rings.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "paceline/base/text.h"

namespace paceline::cli {

bool NodeRings::Take(wire::RingPart part) {
  boot_id_ = part.boot_id;
  now_ = part.now;
  RingSlice& slice = part.slice;
  if (!part.has_ring) {
    is_complete_ = true;
    return true;
  }
  if (slice.rank < int64_t{at_.rank} || slice.rank > std::numeric_limits<uint32_t>::max() - 1) {
    return false;
  }
  const auto known = rings_.find(slice.rank);
  const bool goes_on = known != rings_.end() && known->second.generation == slice.generation;
  if (goes_on && !slice.entries.empty() && slice.entries.back().number >= at_.before) return false;
  records_ += slice.entries.size();
  const bool has_older = slice.has_older && !slice.entries.empty();
  if (has_older) {
    at_.rank = static_cast<uint32_t>(slice.rank);
    at_.generation = Generation(slice.generation);
    at_.before = slice.entries.front().number;
  } else {
    is_complete_ = !part.has_more;
    at_ = {.rank = static_cast<uint32_t>(slice.rank) + 1, .last = at_.last};
  }
  if (!goes_on) {
    // The rank began anew since its former part was read.
    if (known != rings_.end()) records_ -= known->second.entries.size();
    rings_[slice.rank] = std::move(slice);
    return true;
  }
  RingSlice& ring = known->second;
  ring.entries.insert(ring.entries.begin(), std::make_move_iterator(slice.entries.begin()),
                      std::make_move_iterator(slice.entries.end()));
  ring.whole_from_ns = slice.whole_from_ns;
  return true;
}

std::string TracedHosts::NodesOn(size_t host) const {
  std::set<std::string> nodes;
  for (const RankTrace& rank : ranks) {
    if (rank.host == host) nodes.insert(rank.node);
  }
  return JoinWith(nodes, ", ");
}

TracedHosts JoinNodes(const std::string& first_boot, const HostNow& first,
                      const std::vector<NodeRings>& nodes) {
  TracedHosts all{.hosts = {first}, .boots = {first_boot}, .ranks = {}};
  std::map<int64_t, RankTrace> newest;
  for (const NodeRings& node : nodes) {
    if (node.rings().empty()) continue;
    const auto known = std::ranges::find(all.boots, node.boot_id());
    const auto host = static_cast<size_t>(known - all.boots.begin());
    if (known == all.boots.end()) {
      all.boots.push_back(node.boot_id());
      all.hosts.push_back(node.now());
    }
    for (const auto& [rank, ring] : node.rings()) {
      const auto other = newest.find(rank);
      if (other != newest.end() && other->second.ring.generation >= ring.generation) continue;
      newest[rank] = {.node = node.node(), .host = host, .ring = ring};
    }
  }
  for (auto& [rank, trace] : newest) all.ranks.push_back(std::move(trace));
  return all;
}

}  // namespace paceline::cli
