#pragma once

// What fuzz targets share: an input cut into parts, and demands.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::fuzz {

// What must hold for every input, sanitizers aside.
inline void Demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "demand failed: %s\n", what);
  std::abort();
}

inline std::string_view AsText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Cuts at each `separator`.
inline std::vector<std::string> Parts(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace paceline::fuzz
