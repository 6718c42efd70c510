#pragma once

// Disjoint ranges of ordinals, merged where they touch. Its size is the number of gaps, so a ledger
// that hands out a billion samples in order stays as small as what is open in it.

#include <cstdint>
#include <map>
#include <vector>

#include "paceline/data/epoch_order.h"

namespace paceline {

class IntervalSet {
 public:
  // What was in the set already stays; an empty range adds nothing.
  void Add(OrdinalRange range);

  // What is not in the set is passed over.
  void Remove(OrdinalRange range);

  bool Covers(OrdinalRange range) const;    // all of it; an empty range always
  bool Overlaps(OrdinalRange range) const;  // any of it

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
