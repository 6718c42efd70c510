#pragma once

// Which sample stands at which ordinal of an epoch. An ordinal is a position in the order in which
// an epoch is consumed; a sample is an index of the data set. Nothing is stored, so an order of any
// size is made in no time and costs no memory, in the trainer and in whoever asks later.
//
// Three orders: as stored; shuffled as a whole; shuffled in blocks, for storage that reads runs of
// neighbours faster than single samples. The last shuffles the blocks, takes `window` of them at a
// time and shuffles the samples within that window, so a reader that keeps a window in memory reads
// each block once and in one piece.
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
  kWhole,    // any sample at any place
  kBlocked,  // see above
};

struct OrderSpec {
  uint64_t samples = 0;  // 1 … kSamplesMax
  uint64_t seed = 0;
  uint64_t epoch = 0;
  Shuffle shuffle = Shuffle::kWhole;
  uint64_t block = 0;   // kBlocked: samples of a block, at least 1; the last one may be smaller
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
  // kInvalid: what the spec breaks.
  static Result<EpochOrder> Make(const OrderSpec& spec);

  const OrderSpec& spec() const { return spec_; }

  // ordinal < samples; sample < samples.
  uint64_t SampleAt(uint64_t ordinal) const;
  uint64_t OrdinalOf(uint64_t sample) const;

  // The samples at these ordinals, in their order; range.end <= samples.
  std::vector<uint64_t> SamplesAt(OrdinalRange range) const;

 private:
  explicit EpochOrder(const OrderSpec& spec);

  // A window of blocks, as ordinals, and where the block that is too small stands among them.
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
  uint64_t missing_ = 0;               // samples that the last block lacks
  uint64_t short_place_ = 0;           // the place of that block among the shuffled ones
};

}  // namespace paceline
