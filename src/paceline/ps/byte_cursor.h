#pragma once

// Reads numbers and parts of bytes that are not trusted; numbers are little-endian.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace paceline::ps {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

// Behind the end it reads zeros and empty parts, and is not whole any more.
class ByteCursor {
 public:
  explicit ByteCursor(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T Number() {
    T value = 0;
    const std::string_view part = Part(sizeof(T));
    if (part.size() == sizeof(T)) std::memcpy(&value, part.data(), sizeof(T));
    return value;
  }

  std::string_view Part(uint64_t size) {
    if (size > bytes_.size()) {
      is_whole_ = false;
      bytes_ = {};
      return {};
    }
    const std::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return part;
  }

  // Zeros up to a multiple of eight bytes after a part of `size` bytes.
  void Padding(uint64_t size) {
    const std::string_view zeros = Part(PaddingOf(size));
    is_whole_ = is_whole_ && zeros.find_first_not_of('\0') == std::string_view::npos;
  }

  static size_t PaddingOf(uint64_t size) { return (8 - size % 8) % 8; }

  size_t left() const { return bytes_.size(); }
  bool is_whole() const { return is_whole_; }

 private:
  std::string_view bytes_;
  bool is_whole_ = true;
};

template <class T>
void AppendNumber(T value, std::string* bytes) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes->append(raw, sizeof(T));
}

inline void AppendPadded(std::string_view part, std::string* bytes) {
  bytes->append(part);
  bytes->append(ByteCursor::PaddingOf(part.size()), '\0');
}

}  // namespace paceline::ps
