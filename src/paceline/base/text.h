#pragma once

// Builds and splits strings, for std::string_view. (The distribution's Abseil has its own
// string_view, so its StrCat and StrSplit do not accept std's.)

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace paceline {

inline void AppendPiece(std::string* text, std::string_view piece) { text->append(piece); }
template <class T>
requires std::integral<T> &&
    (!std::same_as<T, char>)&&(!std::same_as<T, bool>)void AppendPiece(std::string* text,
                                                                       T number) {
  text->append(std::to_string(number));
}

// Concatenates strings and whole numbers.
template <class... Pieces>
std::string Concat(const Pieces&... pieces) {
  std::string text;
  (AppendPiece(&text, pieces), ...);
  return text;
}

template <class... Pieces>
void Append(std::string* text, const Pieces&... pieces) {
  (AppendPiece(text, pieces), ...);
}

// The parts between separators, without empty ones. The views point into `text`.
inline std::vector<std::string_view> SplitParts(std::string_view text,
                                                std::string_view separators) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = text.find_first_of(separators);
    if (end != 0) parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

// The text without white space at both ends.
inline std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Takes `prefix` off the front, if it is there.
inline bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// The whole text as one decimal number, or none.
template <std::integral T>
std::optional<T> ParseWhole(std::string_view text) {
  T number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "1 node", "2 nodes".
inline std::string Counted(size_t count, std::string_view noun) {
  std::string text = std::to_string(count) + " ";
  text.append(noun);
  if (count != 1) text.push_back('s');
  return text;
}

template <class Strings>
std::string JoinWith(const Strings& parts, std::string_view separator) {
  std::string text;
  bool is_first = true;
  for (const auto& part : parts) {
    if (!is_first) text.append(separator);
    text.append(part);
    is_first = false;
  }
  return text;
}

}  // namespace paceline
