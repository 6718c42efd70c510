#pragma once

// Draws of fractions from the integers of Prng.

#include <cmath>

#include "paceline/base/prng.h"

namespace paceline::sim {

// Uniform in (0, 1).
inline double DrawPart(Prng& prng) {
  return (static_cast<double>(prng.Next() >> 11) + 0.5) / static_cast<double>(uint64_t{1} << 53);
}
inline double DrawBetween(Prng& prng, double low, double high) {
  return low + (high - low) * DrawPart(prng);
}
// Uniform in the logarithm.
inline double DrawLog(Prng& prng, double low, double high) {
  return low * std::pow(high / low, DrawPart(prng));
}
// The sum of twelve parts: near enough to the normal distribution, and equal on every machine.
inline double DrawNormal(Prng& prng) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += DrawPart(prng);
  return sum;
}
// The time until the next of events that come `mean` apart.
inline double DrawWait(Prng& prng, double mean) { return -mean * std::log(DrawPart(prng)); }

}  // namespace paceline::sim
