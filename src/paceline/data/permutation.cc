#include "paceline/data/permutation.h"

#include <cmath>

#include "paceline/base/check.h"

namespace paceline {
namespace {

constexpr uint64_t kGolden = 0x9e37'79b9'7f4a'7c15ULL;

// The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebULL;
  return z ^ (z >> 31);
}

// A pseudo-random distance below `size`, without a division (Lemire, "Fast Random Integer
// Generation in an Interval", 2019). Its bias is below size / 2^64.
uint64_t Distance(uint64_t key, uint64_t at, uint64_t size) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Mix(at + key)) * size) >> 64);
}

uint64_t Add(uint64_t at, uint64_t distance, uint64_t size) {
  const uint64_t sum = at + distance;
  return sum >= size ? sum - size : sum;
}

uint64_t Subtract(uint64_t at, uint64_t distance, uint64_t size) {
  return at >= distance ? at - distance : at + size - distance;
}

// The smallest even number whose square is at least `count`. Odd numbers of columns and rows would
// allow only even permutations.
uint64_t ColumnsFor(uint64_t count) {
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(count)));
  while (root * root < count) ++root;
  while (root > 0 && (root - 1) * (root - 1) >= count) --root;
  return root + root % 2;
}

}  // namespace

Permutation::Permutation(uint64_t count, const PermutationKey& key)
    : count_(count), columns_(ColumnsFor(count)), rounds_(count <= kFew ? kRoundsOfFew : kRounds) {
  CHECK(count >= 1, "a permutation has at least one element");
  CHECK(count <= kSamplesMax, "a permutation has at most 2^53 elements");
  rows_ = (count_ + columns_ - 1) / columns_;
  uint64_t state = 0;
  for (const uint64_t word : {key.seed, key.epoch, key.stream}) {
    state = Mix((state ^ word) + kGolden);
  }
  for (int round = 0; round < rounds_; ++round) {
    state += kGolden;
    keys_[round] = Mix(state);
  }
}

uint64_t Permutation::Forward(uint64_t place) const {
  CHECK(place < count_, "a place within the permutation");
  uint64_t at = place;
  do {
    uint64_t row = at / columns_;
    uint64_t column = at - row * columns_;
    for (int round = 0; round < rounds_; round += 2) {
      column = Add(column, Distance(keys_[round], row, columns_), columns_);
      row = Add(row, Distance(keys_[round + 1], column, rows_), rows_);
    }
    at = row * columns_ + column;
  } while (at >= count_);
  return at;
}

uint64_t Permutation::Inverse(uint64_t element) const {
  CHECK(element < count_, "an element of the permutation");
  uint64_t at = element;
  do {
    uint64_t row = at / columns_;
    uint64_t column = at - row * columns_;
    for (int round = rounds_ - 2; round >= 0; round -= 2) {
      row = Subtract(row, Distance(keys_[round + 1], column, rows_), rows_);
      column = Subtract(column, Distance(keys_[round], row, columns_), columns_);
    }
    at = row * columns_ + column;
  } while (at >= count_);
  return at;
}

}  // namespace paceline
