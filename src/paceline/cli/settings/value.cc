#include "paceline/cli/settings/value.h"

#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

struct NumberWithUnit {
  double number = 0;
  bool whole = true;
  int64_t integer = 0;
  std::string unit;
};

// digits [. digits] spaces unit; no sign, no exponent.
std::optional<NumberWithUnit> SplitUnit(std::string_view text) {
  text = Trimmed(text);
  size_t end = 0;
  while (end < text.size() && (IsDigit(text[end]) || text[end] == '.')) ++end;
  const std::string digits(text.substr(0, end));
  const size_t point = digits.find('.');
  if (digits.empty() || !IsDigit(digits.front()) || !IsDigit(digits.back()) || digits.size() > 18 ||
      (point != std::string::npos && digits.find('.', point + 1) != std::string::npos)) {
    return std::nullopt;
  }
  NumberWithUnit result;
  result.number = std::strtod(digits.c_str(), nullptr);
  result.whole = point == std::string::npos;
  if (result.whole) result.integer = std::strtoll(digits.c_str(), nullptr, 10);
  result.unit = std::string(Trimmed(text.substr(end)));
  return result;
}

using Unit = std::pair<std::string_view, int64_t>;

std::optional<int64_t> Scale(const NumberWithUnit& parsed, int64_t factor) {
  int64_t product = 0;
  if (parsed.whole) {
    if (__builtin_mul_overflow(parsed.integer, factor, &product)) return std::nullopt;
    return product;
  }
  const double scaled = std::round(parsed.number * static_cast<double>(factor));
  if (!(scaled < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(scaled);
}

constexpr std::array<Unit, 10> kTimeUnits = {{{"ns", 1},
                                              {"us", 1'000},
                                              {"µs", 1'000},
                                              {"ms", 1'000'000},
                                              {"s", 1'000'000'000},
                                              {"sec", 1'000'000'000},
                                              {"m", 60'000'000'000},
                                              {"min", 60'000'000'000},
                                              {"h", 3'600'000'000'000},
                                              {"d", 86'400'000'000'000}}};

constexpr std::array<Unit, 9> kSizeUnits = {{{"B", 1},
                                             {"KiB", int64_t{1} << 10},
                                             {"MiB", int64_t{1} << 20},
                                             {"GiB", int64_t{1} << 30},
                                             {"TiB", int64_t{1} << 40},
                                             {"KB", 1'000},
                                             {"MB", 1'000'000},
                                             {"GB", 1'000'000'000},
                                             {"TB", 1'000'000'000'000}}};

template <size_t N>
std::optional<int64_t> WithUnit(std::string_view text, const std::array<Unit, N>& units) {
  const auto parsed = SplitUnit(text);
  if (!parsed.has_value()) return std::nullopt;
  if (parsed->unit.empty() && parsed->number == 0) return 0;
  for (const auto& [name, factor] : units) {
    if (parsed->unit == name) return Scale(*parsed, factor);
  }
  return std::nullopt;
}

// Python allows single underscores between digits.
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_') {
      if (i == 0 || i + 1 == text.size() || !IsDigit(text[i - 1]) || !IsDigit(text[i + 1])) {
        return std::nullopt;
      }
      continue;
    }
    out += text[i];
  }
  return out;
}

}  // namespace

std::optional<Duration> ParseDuration(std::string_view text) {
  const std::string_view word = Trimmed(text);
  if (word == "never" || word == "forever" || word == "infinite") return Duration::Infinite();
  const auto nanoseconds = WithUnit(word, kTimeUnits);
  if (!nanoseconds.has_value()) return std::nullopt;
  return Duration::Nanoseconds(*nanoseconds);
}

std::string FormatDuration(Duration duration) {
  if (duration.is_infinite()) return "never";
  const int64_t n = duration.nanoseconds();
  if (n == 0) return "0s";
  constexpr std::array<Unit, 6> kShown = {{{"h", 3'600'000'000'000},
                                           {"m", 60'000'000'000},
                                           {"s", 1'000'000'000},
                                           {"ms", 1'000'000},
                                           {"us", 1'000},
                                           {"ns", 1}}};
  for (const auto& [name, factor] : kShown) {
    if (n % factor == 0) return std::to_string(n / factor) + std::string(name);
  }
  return std::to_string(n) + "ns";
}

std::optional<uint64_t> ParseSize(std::string_view text) {
  const auto bytes = WithUnit(text, kSizeUnits);
  if (!bytes.has_value()) return std::nullopt;
  return static_cast<uint64_t>(*bytes);
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  const auto plain = WithoutUnderscores(Trimmed(text));
  if (!plain.has_value() || plain->empty()) return std::nullopt;
  const bool signed_text = plain->front() == '-' || plain->front() == '+';
  const bool negative = plain->front() == '-';
  int64_t value = 0;
  if (plain->size() == (signed_text ? 1 : 0)) return std::nullopt;
  for (size_t i = signed_text ? 1 : 0; i < plain->size(); ++i) {
    const char c = (*plain)[i];
    if (!IsDigit(c)) return std::nullopt;
    const int64_t digit = negative ? -(c - '0') : c - '0';
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value)) {
      return std::nullopt;
    }
  }
  return value;
}

std::optional<double> ParseNumber(std::string_view text) {
  const auto plain = WithoutUnderscores(Trimmed(text));
  if (!plain.has_value() || plain->empty()) return std::nullopt;
  if (plain->find_first_of("xXpP(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(plain->c_str(), &end);
  if (end != plain->c_str() + plain->size()) return std::nullopt;
  return value;
}

std::optional<NodeRange> ParseNodeRange(std::string_view text) {
  constexpr int64_t kNodesMax = 100'000;
  const std::vector<std::string> parts = Split(text, ':');
  const auto low = ParseInteger(parts.front());
  const auto high = ParseInteger(parts.back());
  if (parts.size() > 2 || !low || !high || *low < 1 || *high < *low || *high > kNodesMax) {
    return std::nullopt;
  }
  return NodeRange{static_cast<uint32_t>(*low), static_cast<uint32_t>(*high)};
}

std::optional<bool> ParseOnOff(std::string_view text) {
  const std::string_view word = Trimmed(text);
  for (const std::string_view yes : {"on", "true", "yes", "1"}) {
    if (word == yes) return true;
  }
  for (const std::string_view no : {"off", "false", "no", "0"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

std::vector<std::string> ParseCommaList(std::string_view text) {
  std::vector<std::string> items(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      items.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      items.back() += ',';
      ++i;
    } else {
      items.emplace_back();
    }
  }
  return items;
}

}  // namespace paceline::cli
