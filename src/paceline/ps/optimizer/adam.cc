#include <algorithm>
#include <bit>
#include <cmath>

#include "paceline/ps/optimizer/kernel.h"
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
void AdamFloats(const AdamStep& step, uint32_t begin, uint32_t end, uint32_t dim, float* row,
                const float* gradient) {
  float* mean = row + dim;
  float* square = mean + dim;
  for (uint32_t i = begin; i < end; ++i) {
    mean[i] = step.beta1 * mean[i] + step.rest1 * gradient[i];
    square[i] = step.beta2 * square[i] + step.rest2 * (gradient[i] * gradient[i]);
    row[i] -= step.rate * mean[i] / (std::sqrt(square[i]) / step.root + step.epsilon);
  }
}

void AdamPortable(const OptimizerSpec& spec, uint32_t dim, std::span<float* const> rows,
                  const float* gradients) {
  ForEachRow(dim, rows, gradients, [&](float* row, const float* gradient) {
    AdamFloats(NextAdamStep(spec, dim, row), 0, dim, dim, row, gradient);
  });
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) void AdamRowAvx2(const AdamStep& step, uint32_t dim, float* row,
                                                 const float* gradient) {
  const __m256 beta1 = _mm256_set1_ps(step.beta1);
  const __m256 beta2 = _mm256_set1_ps(step.beta2);
  const __m256 rest1 = _mm256_set1_ps(step.rest1);
  const __m256 rest2 = _mm256_set1_ps(step.rest2);
  const __m256 rate = _mm256_set1_ps(step.rate);
  const __m256 root = _mm256_set1_ps(step.root);
  const __m256 epsilon = _mm256_set1_ps(step.epsilon);
  float* mean = row + dim;
  float* square = mean + dim;
  const uint32_t whole = WholeLanes(dim);
  for (uint32_t i = 0; i < whole; i += kLanes) {
    const __m256 g = _mm256_loadu_ps(gradient + i);
    const __m256 m =
        _mm256_add_ps(_mm256_mul_ps(beta1, _mm256_loadu_ps(mean + i)), _mm256_mul_ps(rest1, g));
    const __m256 s = _mm256_add_ps(_mm256_mul_ps(beta2, _mm256_loadu_ps(square + i)),
                                   _mm256_mul_ps(rest2, _mm256_mul_ps(g, g)));
    const __m256 below = _mm256_add_ps(_mm256_div_ps(_mm256_sqrt_ps(s), root), epsilon);
    const __m256 change = _mm256_div_ps(_mm256_mul_ps(rate, m), below);
    _mm256_storeu_ps(mean + i, m);
    _mm256_storeu_ps(square + i, s);
    _mm256_storeu_ps(row + i, _mm256_sub_ps(_mm256_loadu_ps(row + i), change));
  }
  AdamFloats(step, whole, dim, dim, row, gradient);
}

void AdamAvx2(const OptimizerSpec& spec, uint32_t dim, std::span<float* const> rows,
              const float* gradients) {
  ForEachRow(dim, rows, gradients, [&](float* row, const float* gradient) {
    AdamRowAvx2(NextAdamStep(spec, dim, row), dim, row, gradient);
  });
}

#endif

StepFn AdamKernel() {
#if defined(__x86_64__)
  if (HasAvx2()) return AdamAvx2;
#endif
  return AdamPortable;
}

}  // namespace

Optimizer Adam() {
  return {.name = "adam",
          .state_floats = [](uint32_t dim) { return 2 * dim + 1; },
          .init_state = [](const OptimizerSpec&, uint32_t dim,
                           float* state) { std::fill_n(state, size_t{2} * dim + 1, 0.0f); },
          .step = AdamKernel(),
          .portable_step = AdamPortable};
}

}  // namespace paceline::ps
