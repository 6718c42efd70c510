#include "paceline/cli/submit/yaml.h"

#include <algorithm>

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

// Words that YAML 1.1 reads as something else than text.
bool IsReserved(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text == "true" || text == "false" || text == "yes" || text == "no" || text == "on" ||
         text == "off" || text == "null" || text == "y" || text == "n";
}

bool IsPlain(const std::string& text) {
  if (text.empty() || IsReserved(text)) return false;
  const unsigned char first = static_cast<unsigned char>(text.front());
  if ((!std::isalpha(first) && first != '/') || text.back() == ':') return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '/' || c == '.' || c == '_' || c == '-' || c == ':';
  });
}

// A quoted JSON text is a quoted YAML text.
std::string Scalar(const Json& value) {
  if (value.is_string() && IsPlain(value.get<std::string>())) return value.get<std::string>();
  return PrintJson(value);
}

bool IsBlock(const Json& value) { return value.is_structured() && !value.empty(); }

void Write(const Json& value, size_t depth, bool is_in_item, std::string* text) {
  const std::string indent(depth * 2, ' ');
  bool is_first = true;
  const auto begin_line = [&] {
    if (!is_first || !is_in_item) *text += indent;
    is_first = false;
  };
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      begin_line();
      *text += Scalar(Json(key)) + ":";
      if (!IsBlock(member)) {
        *text += " " + Scalar(member) + "\n";
        continue;
      }
      *text += "\n";
      Write(member, depth + 1, false, text);
    }
    return;
  }
  for (const Json& item : value) {
    begin_line();
    *text += "- ";
    if (IsBlock(item)) {
      Write(item, depth + 1, true, text);
    } else {
      *text += Scalar(item) + "\n";
    }
  }
}

}  // namespace

std::string ToYaml(const Json& value) {
  if (!IsBlock(value)) return Scalar(value) + "\n";
  std::string text;
  Write(value, 0, false, &text);
  return text;
}

}  // namespace paceline::cli
