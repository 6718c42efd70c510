#pragma once

// When the detectors' verdict on each node may change next. A report does not move a node's time:
// at its old time the node is judged again and gets a new one. So a heartbeat costs nothing here,
// and with ten thousand nodes an event examines only those that are due.

#include <algorithm>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/node_map.h"
#include "paceline/model/ids.h"

namespace paceline::core {

class ChecksDue {
 public:
  // Instant::Max(): never.
  void Set(NodeId node, Instant at) {
    times_[node].at = at;
    if (!at.is_max()) {
      heap_.push_back({at, node});
      std::push_heap(heap_.begin(), heap_.end(), Later);
    }
    DropStale();
  }
  // Sets the time, unless the node is due earlier.
  void NoLaterThan(NodeId node, Instant at) {
    if (at < times_[node].at) Set(node, at);
  }

  Instant first() const { return heap_.empty() ? Instant::Max() : heap_.front().at; }

  // Removes and returns the nodes that are due, in order of their ids.
  std::vector<NodeId> Take(Instant now) {
    std::vector<NodeId> due;
    while (!heap_.empty() && heap_.front().at <= now) {
      due.push_back(heap_.front().node);
      times_[due.back()].at = Instant::Max();
      DropStale();
    }
    std::sort(due.begin(), due.end());
    return due;
  }

 private:
  struct Time {
    Instant at = Instant::Max();
  };
  struct Entry {
    Instant at;
    NodeId node;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at > b.at : a.node > b.node;
  }

  // An entry is valid if `times_` agrees with it. After this the first entry is valid.
  void DropStale() {
    while (!heap_.empty() && times_[heap_.front().node].at != heap_.front().at) {
      std::pop_heap(heap_.begin(), heap_.end(), Later);
      heap_.pop_back();
    }
  }

  std::vector<Entry> heap_;
  NodeMap<Time> times_;
};

}  // namespace paceline::core
