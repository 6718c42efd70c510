#pragma once

#include <cstdint>

namespace paceline {

// The kernel rounds a limit of memory down to whole pages. Limits are multiples of this, so that
// what the kernel shows is what was ordered.
inline constexpr uint64_t kMemoryUnit = uint64_t{1} << 20;
inline constexpr uint64_t WholeUnits(uint64_t bytes) { return bytes / kMemoryUnit * kMemoryUnit; }

}  // namespace paceline
