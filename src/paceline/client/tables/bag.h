// The lookups of one batch in one table. A bag is the keys of one sample. Each distinct key of the
// batch is looked up once, and its gradients from all samples are summed before the push.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/client/tables/key_index.h"

namespace paceline::client {

enum class Pooling : uint8_t { kSum, kMean };

class Bags {
 public:
  // The bags of torch.nn.EmbeddingBag: bag i has the keys from begins[i] to begins[i + 1], and the
  // last one has the rest. kInvalid: the rule that `begins` violates.
  static Result<Bags> FromOffsets(std::span<const int64_t> keys, std::span<const int64_t> begins,
                                  Pooling pooling);
  // Bags of `width` keys each; width is at least 1 and divides the number of keys.
  static Bags OfWidth(std::span<const int64_t> keys, uint64_t width, Pooling pooling);

  const std::vector<uint64_t>& keys() const { return index_.keys(); }  // distinct
  uint64_t bags() const { return ends_.size(); }

  // Writes the sum or the mean of each bag's rows: bags() × dim floats. An empty bag is 0. `rows`
  // has a row for each of keys(), in that order.
  void Pool(std::span<const float> rows, uint32_t dim, std::span<float> pooled) const;

  // Writes the gradient of each row of keys(), from those of the bags.
  void Spread(std::span<const float> pooled, uint32_t dim, std::span<float> rows) const;

 private:
  explicit Bags(Pooling pooling) : pooling_(pooling) {}
  void Take(std::span<const int64_t> keys);
  float WeightOf(uint64_t bag) const;
  uint64_t BeginOf(uint64_t bag) const { return bag == 0 ? 0 : ends_[bag - 1]; }

  Pooling pooling_;
  KeyIndex index_;
  std::vector<uint32_t> numbers_;  // of the distinct key, for each key of the batch
  std::vector<uint64_t> ends_;     // of the bags, in numbers_
};

}  // namespace paceline::client
