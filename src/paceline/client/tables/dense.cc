#include "paceline/client/tables/dense.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace paceline::client {
namespace {

std::vector<uint64_t> RowsOf(const DenseTensor& tensor) {
  std::vector<uint64_t> keys((tensor.values.size() + tensor.dim - 1) / tensor.dim);
  std::iota(keys.begin(), keys.end(), uint64_t{0});
  return keys;
}

}  // namespace

Result<void> InitDense(Tables* tables, std::span<const DenseTensor> tensors) {
  for (const DenseTensor& tensor : tensors) {
    const std::vector<uint64_t> keys = RowsOf(tensor);
    std::vector<float> padded(keys.size() * tensor.dim);
    std::copy(tensor.values.begin(), tensor.values.end(), padded.begin());
    RETURN_IF_ERROR(tables->Init(tensor.table, keys, padded));
  }
  return {};
}

Result<void> PullDense(Tables* tables, std::span<const DenseTensor> tensors) {
  std::vector<std::vector<uint64_t>> keys(tensors.size());
  std::vector<std::vector<float>> padded(tensors.size());
  std::vector<TableRead> reads;
  for (size_t i = 0; i < tensors.size(); ++i) {
    keys[i] = RowsOf(tensors[i]);
    padded[i].resize(keys[i].size() * tensors[i].dim);
    reads.push_back({.table = tensors[i].table, .keys = keys[i], .rows = padded[i]});
  }
  // They have rows since InitDense, so nothing is admitted.
  RETURN_IF_ERROR(tables->Pull(reads, /*is_training=*/false));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::span<float> values = tensors[i].values;
    std::copy_n(padded[i].begin(), values.size(), values.begin());
  }
  return {};
}

}  // namespace paceline::client
