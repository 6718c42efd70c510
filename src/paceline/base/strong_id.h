#pragma once

// A number that is only an identity: it compares and prints, it has no arithmetic, and ids with
// different tags do not mix. Ordered, so that it can be a key in sorted containers.

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace paceline {

template <class Tag, class Rep = uint64_t>
class StrongId {
 public:
  using rep = Rep;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }
  // The following id, for counters.
  constexpr StrongId next() const { return StrongId(static_cast<Rep>(value_ + 1)); }

  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  Rep value_ = 0;
};

template <class Tag, class Rep>
std::string ToString(StrongId<Tag, Rep> id) {
  return std::to_string(id.value());
}

}  // namespace paceline

template <class Tag, class Rep>
struct std::hash<paceline::StrongId<Tag, Rep>> {
  size_t operator()(paceline::StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>()(id.value());
  }
};
