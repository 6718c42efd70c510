#pragma once

// Untrusted text: whether it is UTF-8, and a printable form.

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline {

// The limit of CleanText's result.
inline constexpr size_t kTextBytesMax = 16 * 1024;

// By RFC 3629: no overlong forms, no surrogates, nothing beyond the last code point.
bool IsUtf8(std::string_view text);

// Valid UTF-8: invalid bytes become "?", and the text is cut at kTextBytesMax between characters.
std::string CleanText(std::string_view text);

}  // namespace paceline
