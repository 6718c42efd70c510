#pragma once

// How the pages are read and written that a rank shares with its agent.

#include <atomic>

namespace paceline::client {

inline constexpr auto kRelaxed = std::memory_order_relaxed;
inline constexpr auto kRelease = std::memory_order_release;

}  // namespace paceline::client
