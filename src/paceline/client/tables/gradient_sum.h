// The gradient of one table for one push. A table may be looked up several times in a batch; the
// gradients of a key are summed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/client/tables/bag.h"
#include "paceline/client/tables/key_index.h"

namespace paceline::client {

class GradientSum {
 public:
  explicit GradientSum(uint32_t dim) : dim_(dim) {}

  // Adds what the bags' gradients, bags.bags() × dim floats, are for the rows.
  void Add(const Bags& bags, std::span<const float> pooled);

  // Adds a dense tensor's gradient. Its rows have the keys 0, 1, …; the last one is padded with 0.
  void AddDense(std::span<const float> values);

  void Clear();

  uint32_t dim() const { return dim_; }
  const std::vector<uint64_t>& keys() const { return index_.keys(); }
  const std::vector<float>& values() const { return values_; }  // keys × dim

 private:
  const uint32_t dim_;
  KeyIndex index_;
  std::vector<float> values_;
  std::vector<float> rows_;  // of one lookup; kept for its memory
};

}  // namespace paceline::client
