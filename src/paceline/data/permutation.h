#pragma once

// A keyed permutation of 0 … count-1 that is computed and not stored: the first of 10^12 samples
// costs as much as the first of ten.
//
// The numbers form a grid of `columns` × `rows` cells, with fewer than `columns` cells in excess.
// Rounds of a generalized Feistel network (Black and Rogaway, "Ciphers with Arbitrary Finite
// Domains", CT-RSA 2002) move each cell within its column and within its row by a pseudo-random
// distance. An element on an excess cell is moved on until it leaves them (cycle walking), which is
// rare. Each step can be undone, so the inverse costs the same.
//
// It is not a cipher: it spreads samples and hides nothing. It never changes, because positions in
// checkpoints depend on it; docs/formats/data_order.md specifies each bit.

#include <array>
#include <cstdint>

namespace paceline {

// Integers up to here are exact in JSON and in a double.
inline constexpr uint64_t kSamplesMax = uint64_t{1} << 53;

// The key of a permutation, made of up to three numbers.
struct PermutationKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t stream = 0;  // tells permutations of one epoch apart
};

class Permutation {
 public:
  // 1 <= count <= kSamplesMax.
  Permutation(uint64_t count, const PermutationKey& key);

  uint64_t count() const { return count_; }

  // The element at `place`; place < count.
  uint64_t Forward(uint64_t place) const;

  // The place of `element`; element < count.
  uint64_t Inverse(uint64_t element) const;

 private:
  // Few elements need more rounds. With 8 rounds, orders of five elements were up to 20 % too
  // frequent or too rare. With 24 no test distinguishes them from a shuffle.
  static constexpr uint64_t kFew = uint64_t{1} << 16;
  static constexpr int kRounds = 8;
  static constexpr int kRoundsOfFew = 24;

  uint64_t count_;
  uint64_t columns_;
  uint64_t rows_;
  int rounds_;
  std::array<uint64_t, kRoundsOfFew> keys_{};
};

}  // namespace paceline
