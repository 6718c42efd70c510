#include "paceline/base/utf8.h"

#include <algorithm>

namespace paceline {
namespace {

// Length of the UTF-8 character at the start of `text`; 0 if there is none.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;  // overlong
  if (lead == 0xed && byte(1) > 0x9f) return 0;  // surrogates
  if (lead == 0xf0 && byte(1) < 0x90) return 0;  // overlong
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;  // beyond the last code point
  return length;
}

}  // namespace

std::string CleanText(std::string_view text) {
  std::string clean;
  clean.reserve(std::min(text.size(), kTextBytesMax));
  while (!text.empty()) {
    const size_t length = CharacterBytes(text);
    if (clean.size() + std::max<size_t>(length, 1) > kTextBytesMax) break;
    if (length == 0) {
      clean += '?';
    } else {
      clean += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return clean;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterBytes(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace paceline
