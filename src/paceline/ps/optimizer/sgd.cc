#include "paceline/ps/optimizer/kernel.h"
#include "paceline/ps/optimizer/optimizers.h"

namespace paceline::ps {
namespace {

// value -= rate × gradient
void SgdFloats(float rate, uint32_t begin, uint32_t end, float* row, const float* gradient) {
  for (uint32_t i = begin; i < end; ++i) row[i] -= rate * gradient[i];
}

void SgdPortable(const OptimizerSpec& spec, uint32_t dim, std::span<float* const> rows,
                 const float* gradients) {
  const auto rate = static_cast<float>(spec.rate);
  ForEachRow(dim, rows, gradients,
             [&](float* row, const float* gradient) { SgdFloats(rate, 0, dim, row, gradient); });
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) void SgdRowAvx2(float rate, uint32_t dim, float* row,
                                                const float* gradient) {
  const __m256 rates = _mm256_set1_ps(rate);
  const uint32_t whole = WholeLanes(dim);
  for (uint32_t i = 0; i < whole; i += kLanes) {
    const __m256 step = _mm256_mul_ps(rates, _mm256_loadu_ps(gradient + i));
    _mm256_storeu_ps(row + i, _mm256_sub_ps(_mm256_loadu_ps(row + i), step));
  }
  SgdFloats(rate, whole, dim, row, gradient);
}

void SgdAvx2(const OptimizerSpec& spec, uint32_t dim, std::span<float* const> rows,
             const float* gradients) {
  const auto rate = static_cast<float>(spec.rate);
  ForEachRow(dim, rows, gradients,
             [&](float* row, const float* gradient) { SgdRowAvx2(rate, dim, row, gradient); });
}

#endif

StepFn SgdStep() {
#if defined(__x86_64__)
  if (HasAvx2()) return SgdAvx2;
#endif
  return SgdPortable;
}

}  // namespace

Optimizer Sgd() {
  return {.name = "sgd",
          .state_floats = [](uint32_t) { return 0u; },
          .init_state = [](const OptimizerSpec&, uint32_t, float*) {},
          .step = SgdStep(),
          .portable_step = SgdPortable};
}

}  // namespace paceline::ps
