#pragma once

// Which ordinals the partitions of a holding have applied. Partitions that have applied the same
// share one group. A partition that was loaded from a snapshot brings a group of its own, until
// both groups have caught up with each other.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/data/lease/interval_set.h"
#include "paceline/ps/push.h"
#include "paceline/ps/table_spec.h"

namespace paceline::ps {

using AppliedSet = std::map<uint64_t, IntervalSet>;  // hash of a data set's name → its ordinals

class AppliedSets {
 public:
  AppliedSets();

  // kApplied: at least one group must apply the batch, see Takes. kMalformed, kOverlaps with `why`.
  PushAnswer Judge(const PushTag& tag, std::string* why) const;

  // True if the partition has not applied the batch, which Judge let pass.
  bool Takes(uint32_t partition, const PushTag& tag) const;

  // True if all partitions agree on what they have applied.
  bool AreOne() const { return groups_.size() == 1; }

  // Every group has the batch now.
  void Add(const PushTag& tag);

  const AppliedSet& Of(uint32_t partition) const;
  void Set(uint32_t partition, const AppliedSet& applied);

 private:
  void Merge();

  std::vector<AppliedSet> groups_;
  std::array<uint16_t, kPartitions> group_of_ = {};
};

}  // namespace paceline::ps
