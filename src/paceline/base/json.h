#pragma once

// nlohmann/json with parser and printer instantiated once, in json.cc. In a file that parses or
// prints by itself they take half of the compile time. The whole class is not instantiated, because
// its unused readers and writers of binary formats would take three times as long.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace paceline {

// A discarded value (is_discarded()) if `text` is not JSON. Never throws.
nlohmann::json ParseJson(std::string_view text);
nlohmann::ordered_json ParseOrderedJson(std::string_view text);

struct JsonStyle {
  int indent = -1;  // -1: one line
  char fill = ' ';
};
// Invalid UTF-8 becomes U+FFFD. Never throws.
std::string PrintJson(const nlohmann::json& value, JsonStyle style = {});
std::string PrintJson(const nlohmann::ordered_json& value, JsonStyle style = {});

}  // namespace paceline
