#pragma once

// The rings of one node, put together from the parts that its agent sends. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/cli/trace/job_trace.h"
#include "paceline/wire/codec/ring_part.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

class NodeRings {
 public:
  // `last`: how far the trace goes back.
  NodeRings(std::string node, Duration last) : node_(std::move(node)), at_{.last = last} {}

  const std::string& node() const { return node_; }
  // The part that is wanted next. Meaningless if everything is there.
  const wire::RingCursor& at() const { return at_; }
  bool is_complete() const { return is_complete_; }

  // Returns false if this part is no answer to at(): the agent would be asked without end.
  bool Take(wire::RingPart part);

  // The host's boot and its clocks, as the last part was read. Empty: there was no part.
  const std::string& boot_id() const { return boot_id_; }
  const HostNow& now() const { return now_; }
  // By rank.
  const std::map<int64_t, RingSlice>& rings() const { return rings_; }
  size_t records() const { return records_; }

 private:
  std::string node_;
  wire::RingCursor at_;
  bool is_complete_ = false;
  std::string boot_id_;
  HostNow now_;
  std::map<int64_t, RingSlice> rings_;
  size_t records_ = 0;
};

// The ranks of all nodes, of each rank the newest ring, and the hosts of these nodes.
struct TracedHosts {
  std::vector<HostNow> hosts;
  std::vector<std::string> boots;  // their boot ids
  std::vector<RankTrace> ranks;    // in their order

  // The names of the nodes of a host that have ranks: "node1, node3".
  std::string NodesOn(size_t host) const;
};
// `first` is the host whose clock the events have, with its boot id.
TracedHosts JoinNodes(const std::string& first_boot, const HostNow& first,
                      const std::vector<NodeRings>& nodes);

}  // namespace paceline::cli
