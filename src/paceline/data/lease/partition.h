#pragma once

// Live streams: a data set of partitions that grow. A partition is that of a topic, or a file that
// will not change. Its records have *offsets*; their ordinals are
//
//   ordinal = number of the partition × 2^36 + (offset − base)
//
// with the partition's number in the order in which the job's readers found it, and `base` the
// offset at which the job began to read it. So 2^17 partitions fit below the largest ordinal, and
// the ledger needs no other arithmetic than that of finite data sets.
//
// A partition without an end (a topic's) owns all its 2^36 ordinals from the beginning. A partition
// with an end (a file) owns as many as it has records.

#include <cstdint>
#include <string>

#include "paceline/data/epoch_order.h"

namespace paceline {

inline constexpr int kOffsetBits = 36;
inline constexpr uint64_t kPartitionOrdinals = uint64_t{1} << kOffsetBits;
inline constexpr uint64_t kPartitionsMax = uint64_t{1} << 17;

struct Partition {
  std::string name;  // one line
  uint64_t base = 0;
  OrdinalRange range;
  bool operator==(const Partition&) const = default;
};

inline uint64_t PartitionOf(uint64_t ordinal) { return ordinal >> kOffsetBits; }
// The first ordinal of the next partition.
inline uint64_t EndOfPartition(uint64_t ordinal) {
  return (PartitionOf(ordinal) + 1) << kOffsetBits;
}

}  // namespace paceline
