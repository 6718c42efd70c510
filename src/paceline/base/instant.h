#pragma once

// Time as values: a Duration is a length, an Instant a point on a clock that the caller provides.
//
// Both are signed 64-bit nanoseconds. Sums saturate, so "never" (Instant::Max) stays never when a
// duration is added. There is no function that reads a clock: pure code gets the time as an
// argument, and hosts read their own clocks.

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

namespace paceline {

class Duration {
 public:
  constexpr Duration() = default;

  static constexpr Duration Nanoseconds(int64_t n) { return Duration(n); }
  static constexpr Duration Microseconds(int64_t n) { return Duration(Multiply(n, 1'000)); }
  static constexpr Duration Milliseconds(int64_t n) { return Duration(Multiply(n, 1'000'000)); }
  static constexpr Duration Seconds(int64_t n) { return Duration(Multiply(n, 1'000'000'000)); }
  // Longer than every deadline. Adding to it or subtracting from it does not change it.
  static constexpr Duration Infinite() { return Duration(kMax); }

  constexpr bool is_infinite() const { return nanoseconds_ == kMax; }
  constexpr int64_t nanoseconds() const { return nanoseconds_; }
  constexpr int64_t microseconds() const { return nanoseconds_ / 1'000; }
  constexpr int64_t milliseconds() const { return nanoseconds_ / 1'000'000; }
  constexpr int64_t seconds() const { return nanoseconds_ / 1'000'000'000; }
  constexpr double ToSecondsF() const { return static_cast<double>(nanoseconds_) / 1e9; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator-() const {
    return is_infinite() ? Duration(kMin) : Duration(0) - *this;
  }

  friend constexpr Duration operator+(Duration a, Duration b) {
    if (a.is_infinite() || b.is_infinite()) return Infinite();
    return Duration(Add(a.nanoseconds_, b.nanoseconds_));
  }
  friend constexpr Duration operator-(Duration a, Duration b) {
    if (a.is_infinite()) return Infinite();
    if (b.is_infinite()) return Duration(kMin);
    return Duration(Subtract(a.nanoseconds_, b.nanoseconds_));
  }
  friend constexpr Duration operator*(Duration a, int64_t factor) {
    return Duration(Multiply(a.nanoseconds_, factor));
  }
  friend constexpr Duration operator*(int64_t factor, Duration a) { return a * factor; }
  // An infinite duration stays infinite. The divisor must not be 0.
  friend constexpr Duration operator/(Duration a, int64_t divisor) {
    return a.is_infinite() ? a : Duration(a.nanoseconds_ / divisor);
  }
  // How many whole `b` fit into `a`.
  friend constexpr int64_t operator/(Duration a, Duration b) {
    return a.nanoseconds_ / b.nanoseconds_;
  }
  friend constexpr Duration operator%(Duration a, Duration b) {
    return Duration(a.nanoseconds_ % b.nanoseconds_);
  }
  constexpr Duration& operator+=(Duration other) { return *this = *this + other; }
  constexpr Duration& operator-=(Duration other) { return *this = *this - other; }

 private:
  friend class Instant;
  static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

  constexpr explicit Duration(int64_t nanoseconds) : nanoseconds_(nanoseconds) {}

  static constexpr int64_t Add(int64_t a, int64_t b) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return b > 0 ? kMax : kMin;
    return sum;
  }
  static constexpr int64_t Subtract(int64_t a, int64_t b) {
    int64_t difference = 0;
    if (__builtin_sub_overflow(a, b, &difference)) return b < 0 ? kMax : kMin;
    return difference;
  }
  static constexpr int64_t Multiply(int64_t a, int64_t b) {
    int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? kMax : kMin;
    return product;
  }

  int64_t nanoseconds_ = 0;
};

class Instant {
 public:
  constexpr Instant() = default;

  static constexpr Instant FromNanoseconds(int64_t n) { return Instant(n); }
  // Later than everything: "never" as a deadline.
  static constexpr Instant Max() { return Instant(Duration::kMax); }

  constexpr int64_t nanoseconds() const { return nanoseconds_; }
  constexpr bool is_max() const { return nanoseconds_ == Duration::kMax; }

  constexpr auto operator<=>(const Instant&) const = default;

  friend constexpr Instant operator+(Instant t, Duration d) {
    return Instant((t.since_zero() + d).nanoseconds());
  }
  friend constexpr Instant operator+(Duration d, Instant t) { return t + d; }
  friend constexpr Instant operator-(Instant t, Duration d) {
    return Instant((t.since_zero() - d).nanoseconds());
  }
  friend constexpr Duration operator-(Instant a, Instant b) {
    return a == b ? Duration() : a.since_zero() - b.since_zero();
  }
  constexpr Instant& operator+=(Duration d) { return *this = *this + d; }
  constexpr Instant& operator-=(Duration d) { return *this = *this - d; }

 private:
  constexpr explicit Instant(int64_t nanoseconds) : nanoseconds_(nanoseconds) {}
  constexpr Duration since_zero() const { return Duration::Nanoseconds(nanoseconds_); }

  int64_t nanoseconds_ = 0;
};

// For people: "250 ms", "1.2 s", "2 min 5 s", "3 h 20 min", "forever".
std::string ToString(Duration duration);

}  // namespace paceline
