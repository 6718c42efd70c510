#include <algorithm>
#include <bit>
#include <cmath>

#include "paceline/ps/optimizer/optimizers.h"

namespace paceline::ps {
namespace {

// `base` to a whole power by squaring: unlike std::pow the same with every C library.
double PowerOf(double base, uint32_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power *= base;
    base *= base;
  }
  return power;
}

// The numbers of one step that are the same for the whole row.
struct AdamStep {
  float beta1 = 0;
  float beta2 = 0;
  float rest1 = 0;  // 1 - beta1
  float rest2 = 0;
  float rate = 0;  // rate / (1 - beta1^steps)
  float root = 0;  // √(1 - beta2^steps)
  float epsilon = 0;
};

// Counts the row's steps, and corrects both averages for them.
AdamStep NextAdamStep(const OptimizerSpec& spec, uint32_t dim, float* row) {
  float& count = row[size_t{3} * dim];
  const uint32_t steps = std::bit_cast<uint32_t>(count) + 1;
  if (steps != 0) count = std::bit_cast<float>(steps);  // after 2^32 - 1 steps it stays
  const uint32_t exponent = std::bit_cast<uint32_t>(count);
  return {.beta1 = static_cast<float>(spec.beta1),
          .beta2 = static_cast<float>(spec.beta2),
          .rest1 = static_cast<float>(1 - spec.beta1),
          .rest2 = static_cast<float>(1 - spec.beta2),
          .rate = static_cast<float>(spec.rate / (1 - PowerOf(spec.beta1, exponent))),
          .root = static_cast<float>(std::sqrt(1 - PowerOf(spec.beta2, exponent))),
          .epsilon = static_cast<float>(spec.epsilon)};
}

// As torch.optim.SparseAdam: a row counts its own steps, and rests while its key does not occur.
// The state is both averages and the count, as the bits of a float:
//   mean = beta1 × mean + (1 - beta1) × gradient
//   square = beta2 × square + (1 - beta2) × gradient²
//   value -= rate / (1 - beta1^count) × mean / (√square / √(1 - beta2^count) + epsilon)
void AdamPortable(const OptimizerSpec& spec, uint32_t dim, float* row, const float* gradient) {
  const AdamStep step = NextAdamStep(spec, dim, row);
  float* mean = row + dim;
  float* square = mean + dim;
  for (uint32_t i = 0; i < dim; ++i) {
    mean[i] = step.beta1 * mean[i] + step.rest1 * gradient[i];
    square[i] = step.beta2 * square[i] + step.rest2 * (gradient[i] * gradient[i]);
    row[i] -= step.rate * mean[i] / (std::sqrt(square[i]) / step.root + step.epsilon);
  }
}

}  // namespace

Optimizer Adam() {
  return {.name = "adam",
          .state_floats = [](uint32_t dim) { return 2 * dim + 1; },
          .init_state = [](const OptimizerSpec&, uint32_t dim,
                           float* state) { std::fill_n(state, size_t{2} * dim + 1, 0.0f); },
          .step = AdamPortable,
          .portable_step = AdamPortable};
}

}  // namespace paceline::ps
