#pragma once

// Disjoint ranges of ordinals, merged if they touch. Its size is the number of gaps. So a ledger
// that hands out a billion samples in order needs memory only for its open ranges.

#include <cstdint>
#include <map>
#include <vector>

#include "paceline/data/epoch_order.h"

namespace paceline {

class IntervalSet {
 public:
  // Ordinals that are already in the set stay; an empty range adds nothing.
  void Add(OrdinalRange range);

  // Ordinals that are not in the set are ignored.
  void Remove(OrdinalRange range);

  bool Covers(OrdinalRange range) const;    // all of it; an empty range always
  bool Overlaps(OrdinalRange range) const;  // any of it

  // The first ordinal from `from` on that is not in the set.
  uint64_t FirstMissing(uint64_t from) const;

  bool empty() const { return ranges_.empty(); }
  uint64_t total() const { return total_; }  // ordinals

  // The lowest range. The set must not be empty.
  OrdinalRange front() const { return {ranges_.begin()->first, ranges_.begin()->second}; }

  std::vector<OrdinalRange> Ranges() const;

  bool operator==(const IntervalSet&) const = default;

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin → end
  uint64_t total_ = 0;
};

}  // namespace paceline
