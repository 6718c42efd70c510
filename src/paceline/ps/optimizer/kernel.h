#pragma once

// What the kernels of the optimizers share.

#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace paceline::ps {

// Calls step(row, gradient) for each row that is not null.
template <class Step>
inline void ForEachRow(uint32_t dim, std::span<float* const> rows, const float* gradients,
                       const Step& step) {
  for (float* row : rows) {
    if (row != nullptr) step(row, gradients);
    gradients += dim;
  }
}

inline constexpr uint32_t kLanes = 8;  // floats of an AVX2 register

// Floats of a row that fill registers; the scalar code does the rest.
constexpr uint32_t WholeLanes(uint32_t dim) { return dim / kLanes * kLanes; }

inline bool HasAvx2() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
#else
  return false;
#endif
}

// False if a float is NaN or infinite.
bool AreFinite(std::span<const float> values);
bool AreFinitePortable(std::span<const float> values);  // the scalar twin

}  // namespace paceline::ps
