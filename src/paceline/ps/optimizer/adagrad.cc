#include <algorithm>
#include <cmath>

#include "paceline/ps/optimizer/kernel.h"
#include "paceline/ps/optimizer/optimizers.h"

namespace paceline::ps {
namespace {

// As torch.optim.Adagrad. The state is the sum of the squared gradients:
//   sum += gradient²
//   value -= rate × gradient / (√sum + epsilon)
void AdagradFloats(float rate, float epsilon, uint32_t begin, uint32_t end, uint32_t dim,
                   float* row, const float* gradient) {
  float* sum = row + dim;
  for (uint32_t i = begin; i < end; ++i) {
    sum[i] += gradient[i] * gradient[i];
    row[i] -= rate * gradient[i] / (std::sqrt(sum[i]) + epsilon);
  }
}

void AdagradPortable(const OptimizerSpec& spec, uint32_t dim, std::span<float* const> rows,
                     const float* gradients) {
  const auto rate = static_cast<float>(spec.rate);
  const auto epsilon = static_cast<float>(spec.epsilon);
  ForEachRow(dim, rows, gradients, [&](float* row, const float* gradient) {
    AdagradFloats(rate, epsilon, 0, dim, dim, row, gradient);
  });
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) void AdagradRowAvx2(float rate, float epsilon, uint32_t dim,
                                                    float* row, const float* gradient) {
  const __m256 rates = _mm256_set1_ps(rate);
  const __m256 epsilons = _mm256_set1_ps(epsilon);
  float* sum = row + dim;
  const uint32_t whole = WholeLanes(dim);
  for (uint32_t i = 0; i < whole; i += kLanes) {
    const __m256 g = _mm256_loadu_ps(gradient + i);
    const __m256 total = _mm256_add_ps(_mm256_loadu_ps(sum + i), _mm256_mul_ps(g, g));
    const __m256 root = _mm256_add_ps(_mm256_sqrt_ps(total), epsilons);
    const __m256 step = _mm256_div_ps(_mm256_mul_ps(rates, g), root);
    _mm256_storeu_ps(sum + i, total);
    _mm256_storeu_ps(row + i, _mm256_sub_ps(_mm256_loadu_ps(row + i), step));
  }
  AdagradFloats(rate, epsilon, whole, dim, dim, row, gradient);
}

void AdagradAvx2(const OptimizerSpec& spec, uint32_t dim, std::span<float* const> rows,
                 const float* gradients) {
  const auto rate = static_cast<float>(spec.rate);
  const auto epsilon = static_cast<float>(spec.epsilon);
  ForEachRow(dim, rows, gradients, [&](float* row, const float* gradient) {
    AdagradRowAvx2(rate, epsilon, dim, row, gradient);
  });
}

#endif

StepFn AdagradStep() {
#if defined(__x86_64__)
  if (HasAvx2()) return AdagradAvx2;
#endif
  return AdagradPortable;
}

}  // namespace

Optimizer Adagrad() {
  return {
      .name = "adagrad",
      .state_floats = [](uint32_t dim) { return dim; },
      .init_state = [](const OptimizerSpec& spec, uint32_t dim,
                       float* state) { std::fill_n(state, dim, static_cast<float>(spec.initial)); },
      .step = AdagradStep(),
      .portable_step = AdagradPortable};
}

}  // namespace paceline::ps
