#pragma once

// Parsers of values in flags, environment variables and settings files. Each returns an empty
// optional if the text is not such a value.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/instant.h"

namespace paceline::cli {

// "250ms", "1.5s", "30 s", "5m" or "5min", "2h", "0", "never". A bare number other than 0 has no
// unit and is refused; so are negative ones.
std::optional<Duration> ParseDuration(std::string_view text);
// The longest time besides "never".
inline constexpr std::string_view kLongestDuration = "2562047h";
// The shortest exact form that ParseDuration reads back: "250ms", "1.5s", "5m", "never".
std::string FormatDuration(Duration duration);

// "512MiB", "10GiB", "1.5GB", "4096B", "0". Units count by 1024 (KiB …) or 1000 (KB …).
inline constexpr std::string_view kLargestSize = "8388607TiB";
std::optional<uint64_t> ParseSize(std::string_view text);

// What Python's int() and float() accept, within 64 bits.
std::optional<int64_t> ParseInteger(std::string_view text);
std::optional<double> ParseNumber(std::string_view text);

// "8", or "6:8" for MIN:MAX, with 1 <= MIN <= MAX <= 100,000.
struct NodeRange {
  uint32_t min = 1;
  uint32_t max = 1;
};
std::optional<NodeRange> ParseNodeRange(std::string_view text);

// on/off, true/false, yes/no, 1/0.
std::optional<bool> ParseOnOff(std::string_view text);

// "a,b" with ",," for a comma within an item, as torchrun's filters.
std::vector<std::string> ParseCommaList(std::string_view text);

}  // namespace paceline::cli
