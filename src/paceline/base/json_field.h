#pragma once

// Reads fields of untrusted JSON. A missing field, or one of another type, gives the default, and
// so does a value that is no object. Nothing throws.

#include <cstdint>
#include <limits>
#include <string>

#include "paceline/base/json.h"

namespace paceline {

template <class Json>
bool JsonHasInt(const Json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_number_integer();
}

// A number out of range counts as missing.
template <class Int, class Json>
Int JsonInt(const Json& object, const char* name, Int missing = 0) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_number_integer()) return missing;
  if (field->is_number_unsigned()) {
    const auto value = field->template get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<Int>::max())) return missing;
    return static_cast<Int>(value);
  }
  const auto value = field->template get<int64_t>();
  if (value < 0 && std::numeric_limits<Int>::min() == 0) return missing;
  if (value < static_cast<int64_t>(std::numeric_limits<Int>::min())) return missing;
  return static_cast<Int>(value);
}

template <class Json>
bool JsonBool(const Json& object, const char* name, bool missing) {
  const auto field = object.find(name);
  return field != object.end() && field->is_boolean() ? field->template get<bool>() : missing;
}

template <class Json>
double JsonNumber(const Json& object, const char* name, double missing = 0) {
  const auto field = object.find(name);
  return field != object.end() && field->is_number() ? field->template get<double>() : missing;
}

template <class Json>
std::string JsonText(const Json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_string() ? field->template get<std::string>() : "";
}

}  // namespace paceline
