#include "paceline/base/instant.h"

namespace paceline {
namespace {

std::string WithUnit(int64_t value, const char* unit) { return std::to_string(value) + " " + unit; }

// One decimal, rounded down, left out when it is 0: "1.2 s", "3 s".
std::string WithTenth(int64_t tenths, const char* unit) {
  std::string text = std::to_string(tenths / 10);
  if (tenths % 10 != 0) text += "." + std::to_string(tenths % 10);
  return text + " " + unit;
}

std::string WithRest(int64_t value, const char* unit, int64_t rest, const char* rest_unit) {
  std::string text = WithUnit(value, unit);
  if (rest != 0) text += " " + WithUnit(rest, rest_unit);
  return text;
}

}  // namespace

std::string ToString(Duration duration) {
  if (duration.is_infinite()) return "forever";
  if (duration < Duration()) return "-" + ToString(-duration);
  const int64_t ns = duration.nanoseconds();
  const int64_t seconds = duration.seconds();
  if (ns == 0) return "0 s";
  if (ns < 1'000) return WithUnit(ns, "ns");
  if (ns < 1'000'000) return WithTenth(ns / 100, "us");
  if (ns < 10'000'000) return WithTenth(ns / 100'000, "ms");
  if (ns < 1'000'000'000) return WithUnit(ns / 1'000'000, "ms");
  if (seconds < 60) return WithTenth(ns / 100'000'000, "s");
  if (seconds < 3600) return WithRest(seconds / 60, "min", seconds % 60, "s");
  return WithRest(seconds / 3600, "h", seconds % 3600 / 60, "min");
}

}  // namespace paceline
