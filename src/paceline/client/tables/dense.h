// Dense tensors as tables. The rows of a tensor have the keys 0, 1, …, and the last row is padded.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/base/result.h"
#include "paceline/client/tables/tables.h"

namespace paceline::client {

struct DenseTensor {
  uint32_t table = 0;
  uint32_t dim = 0;  // of the table
  std::span<float> values;
};

// Gives the tables of these tensors the tensors' values, unless they have values already.
Result<void> InitDense(Tables* tables, std::span<const DenseTensor> tensors);

// Overwrites the tensors with their values on the table servers, in one round trip.
Result<void> PullDense(Tables* tables, std::span<const DenseTensor> tensors);

}  // namespace paceline::client
