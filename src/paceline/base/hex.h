#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

namespace paceline {

// Lower-case hexadecimal digits, at least `digits_min` of them: `Hex(255, 4)` is "00ff".
inline std::string Hex(uint64_t value, size_t digits_min = 1) {
  size_t at = std::max(digits_min, static_cast<size_t>(std::bit_width(value) + 3) / 4);
  std::string text(at, '0');
  for (; value != 0; value >>= 4) text[--at] = "0123456789abcdef"[value & 15];
  return text;
}

}  // namespace paceline
