#pragma once

#include <cstdint>
#include <iterator>
#include <string>

namespace paceline {

// "1.5 GB", with units of powers of 1000 and a digit behind the point; "12 B".
inline std::string BytesText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  uint64_t tenths = bytes * 10;
  for (; tenths >= 10'000 && unit + 1 < std::size(kUnits); ++unit) tenths /= 1000;
  const std::string whole = std::to_string(tenths / 10);
  return (unit == 0 ? whole : whole + "." + std::to_string(tenths % 10)) + " " + kUnits[unit];
}

// "1.5 GiB", with units of powers of 1024 and a digit behind the point if it is not 0; "12 B".
inline std::string BinaryText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  uint64_t tenths = bytes * 10;
  for (; tenths >= 10'240 && unit + 1 < std::size(kUnits); ++unit) tenths /= 1024;
  const std::string part = tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10);
  return std::to_string(tenths / 10) + part + " " + kUnits[unit];
}

}  // namespace paceline
