#include "paceline/ps/optimizer/kernel.h"

#include <bit>

namespace paceline::ps {
namespace {

// As whole numbers without their sign, all finite floats are below this one.
constexpr uint32_t kInfinity = 0x7F800000u;
constexpr uint32_t kNoSign = 0x7FFFFFFFu;

#if defined(__x86_64__)

__attribute__((target("avx2"))) bool AreFiniteAvx2(std::span<const float> values) {
  const __m256i no_sign = _mm256_set1_epi32(static_cast<int>(kNoSign));
  const __m256i largest = _mm256_set1_epi32(static_cast<int>(kInfinity - 1));
  __m256i bad = _mm256_setzero_si256();
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values.data() + i));
    bad = _mm256_or_si256(bad, _mm256_cmpgt_epi32(_mm256_and_si256(bits, no_sign), largest));
  }
  return _mm256_testz_si256(bad, bad) != 0 && AreFinitePortable(values.subspan(whole));
}

#endif

}  // namespace

bool AreFinitePortable(std::span<const float> values) {
  for (const float value : values) {
    if ((std::bit_cast<uint32_t>(value) & kNoSign) >= kInfinity) return false;
  }
  return true;
}

bool AreFinite(std::span<const float> values) {
#if defined(__x86_64__)
  if (HasAvx2()) return AreFiniteAvx2(values);
#endif
  return AreFinitePortable(values);
}

}  // namespace paceline::ps
