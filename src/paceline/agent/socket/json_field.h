#pragma once

// Reads fields of untrusted JSON. A missing field, or one of another type, gives the default.
// Nothing throws.

#include <cstdint>
#include <limits>
#include <string>

#include "paceline/base/json.h"

namespace paceline::agent {

inline bool JsonHasInt(const nlohmann::json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_number_integer();
}

// A number out of range counts as missing.
template <typename Int>
Int JsonInt(const nlohmann::json& object, const char* name, Int missing = 0) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_number_integer()) return missing;
  if (field->is_number_unsigned()) {
    const auto value = field->get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<Int>::max())) return missing;
    return static_cast<Int>(value);
  }
  const auto value = field->get<int64_t>();
  if (value < 0 && std::numeric_limits<Int>::min() == 0) return missing;
  if (value < static_cast<int64_t>(std::numeric_limits<Int>::min())) return missing;
  return static_cast<Int>(value);
}

inline bool JsonBool(const nlohmann::json& object, const char* name, bool missing) {
  const auto field = object.find(name);
  return field != object.end() && field->is_boolean() ? field->get<bool>() : missing;
}

inline double JsonNumber(const nlohmann::json& object, const char* name, double missing = 0) {
  const auto field = object.find(name);
  return field != object.end() && field->is_number() ? field->get<double>() : missing;
}

inline std::string JsonText(const nlohmann::json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_string() ? field->get<std::string>() : std::string();
}

}  // namespace paceline::agent
