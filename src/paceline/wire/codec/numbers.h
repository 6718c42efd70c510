#pragma once

// Little-endian numbers of fixed size, for formats without protobuf: the bulk channel and copies of
// the journal.

#include <bit>
#include <cstring>
#include <string>
#include <string_view>

namespace paceline::wire {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

template <class T>
void AppendNumber(std::string* text, T value) {
  text->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Reads numbers from the front. If the bytes end too early, this and all later reads return 0.
class NumberTaker {
 public:
  explicit NumberTaker(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T Number() {
    T value{};
    const std::string_view bytes = Bytes(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string_view Bytes(size_t size) {
    if (size > rest_.size()) is_cut_off_ = true;
    if (is_cut_off_) return {};
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  bool is_whole() const { return !is_cut_off_ && rest_.empty(); }
  size_t left() const { return is_cut_off_ ? 0 : rest_.size(); }

 private:
  std::string_view rest_;
  bool is_cut_off_ = false;
};

}  // namespace paceline::wire
