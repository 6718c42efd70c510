#pragma once

#include <cstdint>

namespace paceline::plan {

// A config with larger numbers is a mistake, and products of them might overflow.
inline constexpr uint64_t kHiddenMax = 1 << 20;
inline constexpr uint64_t kBlocksMax = 10'000;
inline constexpr uint64_t kHeadsMax = 1 << 14;
inline constexpr uint64_t kExpertsMax = 1 << 12;
inline constexpr uint64_t kVocabularyMax = 1 << 27;
inline constexpr uint64_t kSequenceMax = 1 << 24;

}  // namespace paceline::plan
