#pragma once

// Which ordinals the partitions of a holding have applied. Partitions that have applied the same
// share one group. A partition that was loaded from a snapshot brings a group of its own, until
// both have applied the same.

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/data/lease/interval_set.h"
#include "paceline/ps/push.h"
#include "paceline/ps/table_spec.h"

namespace paceline::ps {

using PartitionBits = std::bitset<kPartitions>;
using AppliedSet = std::map<uint64_t, IntervalSet>;  // hash of a data set's name → its ordinals

class AppliedSets {
 public:
  AppliedSets();

  // kApplied: at least one group must apply the batch, see Takes. kMalformed, kOverlaps with `why`.
  PushAnswer Judge(const PushTag& tag, std::string* why) const;

  // The batch in parts, so that each partition has applied all of a part or none of it. The batch
  // is cut where one of its ranges, or a range that a partition has applied, begins or ends.
  std::vector<OrdinalRange> Parts(const PushTag& tag) const;

  // The partitions that have not applied the batch, which Judge let pass.
  PartitionBits Takes(const PushTag& tag) const;

  // True if all partitions agree on what they have applied.
  bool AreOne() const { return groups_.size() == 1; }

  // Every group has the batch now.
  void Add(const PushTag& tag);

  // The holding has only these partitions. What others have applied no longer counts.
  void Keep(const PartitionBits& kept);

  const AppliedSet& Of(uint32_t partition) const;
  // Sets what the partition has applied. From now on it is one of the kept partitions.
  void Set(uint32_t partition, const AppliedSet& applied);

 private:
  void MergeAtTimes();
  void Merge();

  std::vector<AppliedSet> groups_;  // each has a kept partition, or it is the only one
  size_t pushes_since_merge_ = 0;
  std::array<uint16_t, kPartitions> group_of_ = {};
  PartitionBits kept_;
};

}  // namespace paceline::ps
