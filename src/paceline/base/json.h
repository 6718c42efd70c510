#pragma once

// nlohmann/json with its parser and its printer instantiated once, in json.cc: in each file that
// parses or prints by itself they cost half of its time to compile. The whole class is not
// instantiated there, because its readers and writers of binary formats, which nothing uses, would
// cost three times as much.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace paceline {

// A discarded value (is_discarded()) when `text` is no JSON; no exception.
nlohmann::json ParseJson(std::string_view text);
nlohmann::ordered_json ParseOrderedJson(std::string_view text);

struct JsonStyle {
  int indent = -1;  // -1: one line
  char fill = ' ';
};
// What is not UTF-8 becomes U+FFFD; no exception.
std::string PrintJson(const nlohmann::json& value, JsonStyle style = {});
std::string PrintJson(const nlohmann::ordered_json& value, JsonStyle style = {});

}  // namespace paceline
