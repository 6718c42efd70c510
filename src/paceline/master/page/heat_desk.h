#pragma once

// The heat map of the job's page, from the samples in heartbeats. On the loop's thread.
//
// Kept in memory alone, and bounded: half an hour of one byte per rank and 10 s, which is 1.8 MB
// for 10,000 ranks. A new master begins anew.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/job_state.h"
#include "paceline/diagnose/heat_map.h"

namespace paceline::master {

class HeatDesk {
 public:
  // Takes the samples of a node, except those of ranks for which it has no seat.
  void Take(Instant now, const core::JobState& state, NodeId node,
            const std::vector<RankSample>& samples);

  // The columns that have changed since version `known`; 0: all. docs/formats/heat.md.
  std::string Encode(Instant now, uint64_t known);

 private:
  void Follow(const core::JobState& state);

  diagnose::HeatMap map_;
  std::string plan_;  // whose stages the map has
};

// The pipeline stage of each of `ranks` ranks by the text of a plan. Empty: the text is none of
// this world, or the plan has a single stage.
std::vector<uint32_t> StagesOf(const std::string& plan, size_t ranks);

}  // namespace paceline::master
