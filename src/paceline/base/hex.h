#pragma once

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace paceline {

// Lower-case hexadecimal digits, at least `digits_min` of them: `Hex(255, 4)` is "00ff".
inline std::string Hex(uint64_t value, size_t digits_min = 1) {
  size_t at = std::max(digits_min, static_cast<size_t>(std::bit_width(value) + 3) / 4);
  std::string text(at, '0');
  for (; value != 0; value >>= 4) text[--at] = "0123456789abcdef"[value & 15];
  return text;
}

// The number in a text of hexadecimal digits alone; none if it has other characters or is above
// 64 bits.
inline std::optional<uint64_t> ParseHex(std::string_view digits) {
  uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value, 16);
  const bool is_whole = !digits.empty() && error == std::errc() && at == end;
  return is_whole ? std::optional(value) : std::nullopt;
}

}  // namespace paceline
