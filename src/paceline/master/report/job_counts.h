#pragma once

// How many nodes and ranks of the job are in each state, kept by events, so that a scrape or a
// summary of a job of 10,000 ranks does not go through all of them.
//
// The idea: only two things change a count. A report of a node changes that node's ranks, and they
// are counted anew at once. A record may change anything, and is rare: after one, everything is
// counted anew when somebody reads the counts.

#include <array>
#include <cstdint>
#include <map>

#include "paceline/core/job.h"

namespace paceline::master {

struct StateCounts {
  std::array<uint64_t, 5> nodes = {};  // by core::NodeState::Status; also those that are gone
  uint64_t spares_connected = 0;
  std::array<uint64_t, 4> ranks = {};  // by RankReport::State
  int64_t steps_total = 0;             // of the whole training; 0: not known

  uint64_t In(core::NodeState::Status status) const { return nodes[static_cast<size_t>(status)]; }
  uint64_t In(RankReport::State state) const { return ranks[static_cast<size_t>(state)]; }
  bool operator==(const StateCounts&) const = default;
};

class JobCounts {
 public:
  // After a step of the job with this event. `has_records`: the step made some.
  void Note(const core::Job& job, const core::Event& event, bool has_records);

  const StateCounts& Of(const core::Job& job);

 private:
  // Of one node.
  struct Tally {
    std::array<uint32_t, 4> ranks = {};
    int64_t steps_total = 0;
  };
  static Tally TallyOf(const core::Job& job, const core::NodeLink& link);
  void CountNode(const core::Job& job, NodeId node);
  void CountAll(const core::Job& job);

  bool is_known_ = false;
  StateCounts counts_;
  std::map<NodeId, Tally> tallies_;
};

}  // namespace paceline::master
