#pragma once

// The release. A master speaks with agents of its own and the previous minor version.

#include <cstdint>

namespace paceline {

inline constexpr uint32_t kVersionMajor = 0;
inline constexpr uint32_t kVersionMinor = 1;
inline constexpr uint32_t kVersionPatch = 0;

}  // namespace paceline
