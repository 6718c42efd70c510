#pragma once

// What single values from elsewhere may be, whatever carried them here.

#include <cstdint>
#include <string_view>

namespace paceline::wire {

inline constexpr uint32_t kRankMax = 1u << 24;
inline constexpr uint64_t kGenerationMax = uint64_t{1} << 48;  // room to count on from any of it

// [A-Za-z0-9._-]{1,128} without a leading dot.
bool IsName(std::string_view text);

}  // namespace paceline::wire
