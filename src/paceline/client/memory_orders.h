#pragma once

// Memory orders for the pages that a rank shares with its agent.

#include <atomic>

namespace paceline::client {

inline constexpr auto kRelaxed = std::memory_order_relaxed;
inline constexpr auto kRelease = std::memory_order_release;

}  // namespace paceline::client
