#pragma once

// Checks of single untrusted values, from any source.

#include <cstdint>
#include <string_view>

namespace paceline::wire {

inline constexpr uint32_t kRankMax = 1u << 24;
inline constexpr uint64_t kGenerationMax = uint64_t{1} << 48;  // leaves room to count on

// [A-Za-z0-9._-]{1,128}, no leading dot.
bool IsName(std::string_view text);

}  // namespace paceline::wire
