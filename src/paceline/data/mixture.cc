#include "paceline/data/mixture.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/data/permutation.h"

namespace paceline {
namespace {

constexpr uint64_t kMixtureStream = uint64_t{1} << 63;  // no window has this number
constexpr uint64_t kPeriodMax = uint64_t{1} << 32;

Permutation SlotsOf(uint64_t period, uint64_t seed, uint64_t number) {
  return Permutation(period, {.seed = seed, .epoch = number, .stream = kMixtureStream});
}

}  // namespace

Result<Mixture> Mixture::Make(MixtureSpec spec) {
  const auto invalid = [](const char* why) {
    return Failure{.kind = FailureKind::kInvalid, .message = why};
  };
  if (spec.weights.empty()) return invalid("a mixture has at least one data set");
  uint64_t sum = 0;
  for (const uint64_t weight : spec.weights) {
    if (weight < 1) return invalid("each weight is at least 1");
    if (weight > kPeriodMax - sum) return invalid("the weights add up to more than 2^32");
    sum += weight;
  }
  return Mixture(std::move(spec));
}

Mixture::Mixture(MixtureSpec spec) : spec_(std::move(spec)) {
  for (const uint64_t weight : spec_.weights) ends_.push_back(period_ += weight);
}

Draw Mixture::At(uint64_t place) const {
  const uint64_t number = place / period_;
  const uint64_t slot = SlotsOf(period_, spec_.seed, number).Forward(place % period_);
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), slot);
  const auto set = static_cast<uint64_t>(end - ends_.begin());
  const uint64_t weight = spec_.weights[set];
  return {.set = set, .draw = number * weight + slot - (*end - weight)};
}

uint64_t Mixture::PlaceOf(const Draw& draw) const {
  CHECK(draw.set < spec_.weights.size(), "a data set of the mixture");
  const uint64_t weight = spec_.weights[draw.set];
  const uint64_t number = draw.draw / weight;
  const uint64_t slot = ends_[draw.set] - weight + draw.draw % weight;
  return number * period_ + SlotsOf(period_, spec_.seed, number).Inverse(slot);
}

}  // namespace paceline
