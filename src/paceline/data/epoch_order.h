#pragma once

// Maps ordinals of an epoch to samples. An ordinal is a position in the reading order; a sample is
// an index into the data set. Nothing is stored: any part of an order of any size is computed when
// it is asked for, in the trainer and in later tools.
//
// Three orders: as stored; shuffled as a whole; shuffled in blocks, for storage that reads
// neighbours faster than single samples. The last one shuffles the blocks, takes `window` of them
// at a time, and shuffles the samples within the window. So a reader that keeps a window in memory
// reads each block once and in one piece.
//
// docs/formats/data_order.md specifies the mapping.

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/data/permutation.h"

namespace paceline {

enum class Shuffle {
  kNone,     // as stored
  kWhole,    // a full shuffle
  kBlocked,  // see above
};

struct OrderSpec {
  uint64_t samples = 0;  // 1 … kSamplesMax
  uint64_t seed = 0;
  uint64_t epoch = 0;
  Shuffle shuffle = Shuffle::kWhole;
  uint64_t block = 0;   // kBlocked: samples of a block, at least 1; the last block may be short
  uint64_t window = 0;  // kBlocked: blocks of a window, at least 1
};

// Half open: begin … end-1.
struct OrdinalRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
  bool operator==(const OrdinalRange&) const = default;
};

class EpochOrder {
 public:
  // kInvalid: the rule that the spec violates.
  static Result<EpochOrder> Make(const OrderSpec& spec);

  const OrderSpec& spec() const { return spec_; }

  // ordinal < samples; sample < samples.
  uint64_t SampleAt(uint64_t ordinal) const;
  uint64_t OrdinalOf(uint64_t sample) const;

  // The samples at these ordinals, in their order; range.end <= samples.
  std::vector<uint64_t> SamplesAt(OrdinalRange range) const;

 private:
  explicit EpochOrder(const OrderSpec& spec);

  // A window of blocks, as ordinals, and the place of the short block in it.
  struct Window {
    uint64_t number = 0;
    OrdinalRange ordinals;
  };

  Window WindowAt(uint64_t ordinal) const;
  Permutation WithinWindow(const Window& window) const;
  uint64_t SampleInWindow(const Window& window, const Permutation& within, uint64_t ordinal) const;

  OrderSpec spec_;
  std::optional<Permutation> whole_;   // kWhole
  std::optional<Permutation> blocks_;  // kBlocked
  uint64_t missing_ = 0;               // samples that the short block lacks
  uint64_t short_place_ = 0;           // the short block's place among the shuffled blocks
};

}  // namespace paceline
