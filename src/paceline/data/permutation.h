#pragma once

// A keyed permutation of 0 … count-1 that is computed and never stored: the first of 10^12 samples
// costs what the first of ten costs.
//
// The numbers are laid out as a grid of `columns` × `rows` cells with fewer than `columns` cells
// too many. Rounds of a generalized Feistel network (Black and Rogaway, "Ciphers with Arbitrary
// Finite Domains", CT-RSA 2002) move each cell within its column and within its row by a
// pseudo-random distance; who lands on a cell that is too many walks on until it leaves them
// (cycle walking), which hardly ever happens. Each step can be undone, so the inverse is as cheap.
//
// Not a cipher: it spreads samples, it hides nothing. docs/formats/data_order.md specifies it bit
// by bit, because a checkpoint's position means nothing without it; it never changes.

#include <array>
#include <cstdint>

namespace paceline {

// Integers up to here are exact in JSON and in a double.
inline constexpr uint64_t kSamplesMax = uint64_t{1} << 53;

// The key of a permutation: what it is for, in up to three numbers.
struct PermutationKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t stream = 0;  // which one of several permutations of an epoch
};

class Permutation {
 public:
  // 1 <= count <= kSamplesMax.
  Permutation(uint64_t count, const PermutationKey& key);

  uint64_t count() const { return count_; }

  // Where the element at `place` comes from; place < count.
  uint64_t Forward(uint64_t place) const;

  // The place at which `element` stands; element < count.
  uint64_t Inverse(uint64_t element) const;

 private:
  // Few elements need more rounds: with 8, the 120 orders of five of them came 20 % too often or
  // too seldom; with 24 no test tells them from a shuffle.
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
