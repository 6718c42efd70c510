#include "paceline/client/tables/gradient_sum.h"

namespace paceline::client {

void GradientSum::Add(const Bags& bags, std::span<const float> pooled) {
  const std::vector<uint64_t>& keys = bags.keys();
  if (index_.keys().empty()) {  // the usual case: one lookup a batch
    for (const uint64_t key : keys) index_.Add(key);
    values_.resize(keys.size() * dim_);
    bags.Spread(pooled, dim_, values_);
    return;
  }
  rows_.resize(keys.size() * dim_);
  bags.Spread(pooled, dim_, rows_);
  for (size_t row = 0; row < keys.size(); ++row) {
    const uint64_t number = index_.Add(keys[row]);
    values_.resize(index_.keys().size() * dim_);
    for (uint32_t i = 0; i < dim_; ++i) values_[number * dim_ + i] += rows_[row * dim_ + i];
  }
}

void GradientSum::AddDense(std::span<const float> values) {
  const size_t rows = (values.size() + dim_ - 1) / dim_;
  for (uint64_t key = 0; key < rows; ++key) index_.Add(key);
  values_.resize(rows * dim_);
  for (size_t i = 0; i < values.size(); ++i) values_[i] += values[i];
}

void GradientSum::Clear() {
  index_.Clear();
  values_.clear();
}

}  // namespace paceline::client
