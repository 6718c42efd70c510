#pragma once

// Batches with the same borders for every worker. A *unit* is the ordinals of one batch. Units are
// counted from the beginning of each epoch, so that no batch has samples of two epochs, and the
// last unit of an epoch may be shorter. Leases begin and end at borders of units. So whoever gets a
// batch again after a death gets exactly the same ordinals, and a parameter server can tell a batch
// that it has applied from one that it has not.

#include <algorithm>
#include <cstdint>

#include "paceline/data/epoch_order.h"

namespace paceline {

struct Units {
  uint64_t unit = 0;   // ordinals of a batch; 0: borders are everywhere
  uint64_t epoch = 0;  // ordinals of an epoch; 0: there is only one

  // The last border that is not above `ordinal`.
  uint64_t Floor(uint64_t ordinal) const {
    if (unit <= 1) return ordinal;
    const uint64_t begin = epoch == 0 ? 0 : ordinal / epoch * epoch;
    return begin + (ordinal - begin) / unit * unit;
  }
  bool IsBorder(uint64_t ordinal) const { return Floor(ordinal) == ordinal; }

  // The first border above `ordinal`. The end of the data set, which need not be one, is not known
  // here.
  uint64_t Next(uint64_t ordinal) const {
    if (unit <= 1) return ordinal + 1;
    const uint64_t next = Floor(ordinal) + unit;
    return epoch == 0 ? next : std::min(next, (ordinal / epoch + 1) * epoch);
  }

  // The smallest range of whole units around `inner`, within `outer`.
  OrdinalRange Around(OrdinalRange inner, OrdinalRange outer) const {
    return {std::max(Floor(inner.begin), outer.begin), std::min(Next(inner.end - 1), outer.end)};
  }
};

}  // namespace paceline
