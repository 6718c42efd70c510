#include "paceline/client/tables/bag.h"

#include <algorithm>
#include <string>

namespace paceline::client {

Result<Bags> Bags::FromOffsets(std::span<const int64_t> keys, std::span<const int64_t> begins,
                               Pooling pooling) {
  const auto count = static_cast<int64_t>(keys.size());
  if (begins.empty() && count > 0) {
    return Failure{FailureKind::kInvalid, "there are keys, and offsets has no bag"};
  }
  for (size_t i = 0; i < begins.size(); ++i) {
    const int64_t before = i == 0 ? 0 : begins[i - 1];
    if ((i == 0 && begins[i] != 0) || begins[i] < before || begins[i] > count) {
      return Failure{FailureKind::kInvalid,
                     "offsets[" + std::to_string(i) + "] is " + std::to_string(begins[i]) +
                         ": offsets begin with 0, do not fall, and are at most the number of keys"};
    }
  }
  Bags bags(pooling);
  bags.ends_.reserve(begins.size());
  for (size_t i = 1; i < begins.size(); ++i) {
    bags.ends_.push_back(static_cast<uint64_t>(begins[i]));
  }
  if (!begins.empty()) bags.ends_.push_back(keys.size());
  bags.Take(keys);
  return bags;
}

Bags Bags::OfWidth(std::span<const int64_t> keys, uint64_t width, Pooling pooling) {
  Bags bags(pooling);
  bags.ends_.reserve(keys.size() / width);
  for (uint64_t end = width; end <= keys.size(); end += width) bags.ends_.push_back(end);
  bags.Take(keys);
  return bags;
}

void Bags::Take(std::span<const int64_t> keys) {
  index_.Reserve(keys.size());
  numbers_.reserve(keys.size());
  // A negative key is a key like others.
  for (const int64_t key : keys) numbers_.push_back(index_.Add(static_cast<uint64_t>(key)));
}

float Bags::WeightOf(uint64_t bag) const {
  const uint64_t count = ends_[bag] - BeginOf(bag);
  return pooling_ == Pooling::kMean && count > 0 ? 1.0f / static_cast<float>(count) : 1.0f;
}

void Bags::Pool(std::span<const float> rows, uint32_t dim, std::span<float> pooled) const {
  std::fill(pooled.begin(), pooled.end(), 0.0f);
  for (uint64_t bag = 0; bag < bags(); ++bag) {
    float* const out = pooled.data() + bag * dim;
    for (uint64_t at = BeginOf(bag); at < ends_[bag]; ++at) {
      const float* const row = rows.data() + uint64_t{numbers_[at]} * dim;
      for (uint32_t i = 0; i < dim; ++i) out[i] += row[i];
    }
    const float weight = WeightOf(bag);
    if (weight == 1.0f) continue;
    for (uint32_t i = 0; i < dim; ++i) out[i] *= weight;
  }
}

void Bags::Spread(std::span<const float> pooled, uint32_t dim, std::span<float> rows) const {
  std::fill(rows.begin(), rows.end(), 0.0f);
  for (uint64_t bag = 0; bag < bags(); ++bag) {
    const float* const gradient = pooled.data() + bag * dim;
    const float weight = WeightOf(bag);
    for (uint64_t at = BeginOf(bag); at < ends_[bag]; ++at) {
      float* const row = rows.data() + uint64_t{numbers_[at]} * dim;
      for (uint32_t i = 0; i < dim; ++i) row[i] += gradient[i] * weight;
    }
  }
}

}  // namespace paceline::client
