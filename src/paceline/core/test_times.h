#pragma once

#include <cstdint>

#include "paceline/base/instant.h"

namespace paceline::core {

// Milliseconds after the beginning of all clocks.
inline Instant At(int64_t ms) { return Instant() + Duration::Milliseconds(ms); }

}  // namespace paceline::core
