#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::ps {

// The first values of a row: float i is uniform in [-scale, scale). They follow from the table's
// seed and the row's hash alone (table name and key), so a key gets the same values on every server
// and in every process, admitted or not.
//
// Draw i is number i of the SplitMix64 sequence (Steele, Lea, Flood 2014) that starts at
// hash ^ seed × kSeedFactor; its highest 24 bits are the fraction.
inline void FirstValues(uint64_t seed, uint64_t hash, float scale, uint32_t dim, float* values) {
  constexpr uint64_t kSeedFactor = 0xD1342543DE82EF95u;
  constexpr uint64_t kGamma = 0x9E3779B97F4A7C15u;
  uint64_t state = hash ^ seed * kSeedFactor;
  for (uint32_t i = 0; i < dim; ++i) {
    state += kGamma;
    uint64_t draw = state;
    draw = (draw ^ draw >> 30) * 0xBF58476D1CE4E5B9u;
    draw = (draw ^ draw >> 27) * 0x94D049BB133111EBu;
    draw ^= draw >> 31;
    constexpr float kStep = 1.0f / (1 << 23);
    const float unit = static_cast<float>(draw >> 40) * kStep - 1.0f;  // exact: 24 bits
    values[i] = unit * scale;
  }
}

}  // namespace paceline::ps
