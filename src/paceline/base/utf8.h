#pragma once

// Text of strangers: is it UTF-8, and what can be shown of it.

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline {

// What CleanText keeps at most.
inline constexpr size_t kTextBytesMax = 16 * 1024;

// As RFC 3629 has it: no overlong forms, no surrogates, nothing beyond the last code point.
bool IsUtf8(std::string_view text);

// UTF-8 for sure: what is none becomes "?", and the text is cut at kTextBytesMax, between
// characters.
std::string CleanText(std::string_view text);

}  // namespace paceline
