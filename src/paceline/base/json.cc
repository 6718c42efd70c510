#include "paceline/base/json.h"

namespace paceline {

nlohmann::json ParseJson(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

nlohmann::ordered_json ParseOrderedJson(std::string_view text) {
  return nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string PrintJson(const nlohmann::json& value, JsonStyle style) {
  return value.dump(style.indent, style.fill, false, nlohmann::json::error_handler_t::replace);
}

std::string PrintJson(const nlohmann::ordered_json& value, JsonStyle style) {
  return value.dump(style.indent, style.fill, false,
                    nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace paceline
