#pragma once

// Numbers with a fraction as text, the same in every locale.

#include <array>
#include <charconv>
#include <string>

namespace paceline {

// The shortest decimal number that reads as `value` again: "30", "0.25".
inline std::string NumberText(double value) {
  std::array<char, 64> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

// `value` with that many digits behind the point, at most 50: "99.5".
inline std::string FixedText(double value, int digits) {
  std::array<char, 384> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::fixed, digits);
  return {text.data(), end.ptr};
}

}  // namespace paceline
