#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace paceline {

// FNV-1a of 64 bits (http://www.isthe.com/chongo/tech/comp/fnv): detects torn, overwritten or wrong
// content. No protection against attackers.
inline uint64_t Fnv1a(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}
inline uint64_t Fnv1a(std::string_view text) {
  return Fnv1a(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace paceline
