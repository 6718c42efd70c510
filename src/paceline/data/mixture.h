#pragma once

// Several data sets in one order, in exact proportions. Weights are whole numbers. Each run of as
// many ordinals as their sum has exactly `weight` samples of each set, in shuffled places. A set
// that is used up begins its next epoch in another order, while the others continue. So each set is
// read in whole epochs of its own, whatever the mixture's epoch is.

#include <cstdint>
#include <vector>

#include "paceline/base/result.h"

namespace paceline {

struct MixtureSpec {
  std::vector<uint64_t> weights;  // one a data set, each at least 1
  uint64_t seed = 0;
};

// Draw number `draw` of data set number `set`: sample draw % samples of its epoch draw / samples.
struct Draw {
  uint64_t set = 0;
  uint64_t draw = 0;
  bool operator==(const Draw&) const = default;
};

class Mixture {
 public:
  // kInvalid: no weight, a weight of 0, or a sum beyond 2^32.
  static Result<Mixture> Make(MixtureSpec spec);

  uint64_t sets() const { return spec_.weights.size(); }

  // The sum of the weights. Proportions are exact at each multiple of it.
  uint64_t period() const { return period_; }

  // The draw at a place of the whole training: place = epoch * samples of an epoch + ordinal.
  Draw At(uint64_t place) const;

  // The place of a draw.
  uint64_t PlaceOf(const Draw& draw) const;

 private:
  explicit Mixture(MixtureSpec spec);

  MixtureSpec spec_;
  std::vector<uint64_t> ends_;  // of each set's slots in a period
  uint64_t period_ = 0;
};

}  // namespace paceline
