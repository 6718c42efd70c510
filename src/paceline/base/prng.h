#pragma once

// The only source of random numbers in the core: xoshiro256**, seeded through splitmix64. Integers
// only, because standard distributions and std::shuffle differ between libraries, and a seed must
// repeat a run everywhere. Not for secrets.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "paceline/base/check.h"

namespace paceline {

class Prng {
 public:
  explicit Prng(uint64_t seed) {
    for (uint64_t& word : state_) word = SplitMix(seed);
  }

  uint64_t Next() {
    const uint64_t result = Rotate(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }

  // Uniform in [0, n); n > 0. Draws that would favour small results are rejected.
  uint64_t Below(uint64_t n) {
    CHECK(n > 0, "a draw needs at least one outcome");
    const uint64_t unfair = (0 - n) % n;
    uint64_t draw = Next();
    while (draw < unfair) draw = Next();
    return draw % n;
  }

  // Uniform in [low, high], both ends included.
  int64_t Between(int64_t low, int64_t high) {
    CHECK(low <= high, "an empty range has nothing to draw");
    const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    const uint64_t offset = span == UINT64_MAX ? Next() : Below(span + 1);
    return static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
  }

  // True in `numerator` of `denominator` cases.
  bool Chance(uint64_t numerator, uint64_t denominator) { return Below(denominator) < numerator; }

  template <class T>
  void Shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) {
      using std::swap;
      swap(items[i - 1], items[Below(i)]);
    }
  }

  // An independent generator, so that draws of one part do not change those of another.
  Prng Fork() { return Prng(Next()); }

 private:
  static constexpr uint64_t Rotate(uint64_t word, int bits) {
    return (word << bits) | (word >> (64 - bits));
  }
  static constexpr uint64_t SplitMix(uint64_t& seed) {
    uint64_t z = (seed += 0x9e37'79b9'7f4a'7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebULL;
    return z ^ (z >> 31);
  }

  std::array<uint64_t, 4> state_;
};

}  // namespace paceline
