#pragma once

// The fields of one JSON object, each read once. The first mistake is remembered, and later fields
// read as defaults. So a reader takes all fields, and asks for the mistake at the end.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "paceline/base/json.h"
#include "paceline/base/result.h"
#include "paceline/base/text.h"
#include "paceline/plan/json.h"

namespace paceline::plan {

inline constexpr double kNumberMax = 1e30;
inline constexpr size_t kTextMax = 1024;

class Fields {
 public:
  // `place` names the object in sentences: "layers[3]".
  Fields(const nlohmann::json& object, std::string place)
      : object_(object), place_(std::move(place)) {
    if (!object.is_object()) Refuse(place_ + " is no object");
  }

  double Number(const char* key, std::optional<double> otherwise = std::nullopt) {
    const nlohmann::json* value = Take(key, otherwise.has_value());
    if (value == nullptr) return otherwise.value_or(0);
    if (!value->is_number() || !(value->get<double>() >= 0 && value->get<double>() <= kNumberMax)) {
      Refuse(Name(key) + " is no number from 0 to 1e30");
      return 0;
    }
    return value->get<double>();
  }

  uint64_t Whole(const char* key, uint64_t most, std::optional<uint64_t> otherwise = std::nullopt) {
    const nlohmann::json* value = Take(key, otherwise.has_value());
    if (value == nullptr) return otherwise.value_or(0);
    if (!value->is_number_unsigned() || value->get<uint64_t>() > most) {
      Refuse(Concat(Name(key), " is no whole number from 0 to ", most));
      return 0;
    }
    return value->get<uint64_t>();
  }
  uint32_t Small(const char* key, std::optional<uint64_t> otherwise = std::nullopt) {
    return static_cast<uint32_t>(Whole(key, 1'000'000, otherwise));
  }

  std::string Text(const char* key, std::optional<std::string> otherwise = std::nullopt,
                   size_t most = kTextMax) {
    const nlohmann::json* value = Take(key, otherwise.has_value());
    if (value == nullptr) return otherwise.value_or("");
    if (!value->is_string() || value->get_ref<const std::string&>().size() > most) {
      Refuse(Concat(Name(key), " is no text of at most ", most, " bytes"));
      return "";
    }
    return value->get<std::string>();
  }

  bool Flag(const char* key) {
    const nlohmann::json* value = Take(key, false);
    if (value == nullptr || !value->is_boolean()) {
      Refuse(Name(key) + " is neither true nor false");
      return false;
    }
    return value->get<bool>();
  }

  // The object's own list, or an empty one.
  const nlohmann::json& List(const char* key, size_t most, bool may_be_missing = false) {
    static const nlohmann::json kEmpty = nlohmann::json::array();
    const nlohmann::json* value = Take(key, may_be_missing);
    if (value == nullptr) return kEmpty;
    if (!value->is_array() || value->size() > most) {
      Refuse(Concat(Name(key), " is no list of at most ", most, " entries"));
      return kEmpty;
    }
    return *value;
  }

  // Null if the key is missing, which is a mistake unless `may_be_missing`.
  const nlohmann::json* Take(const char* key, bool may_be_missing) {
    known_.insert(key);
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (!may_be_missing) Refuse(Name(key) + " is missing");
    return nullptr;
  }

  void Refuse(std::string why) {
    if (!mistake_) mistake_ = Failure{.kind = FailureKind::kInvalid, .message = std::move(why)};
  }
  // Records a mistake in a part of the object.
  void Adopt(const Result<void>& part) {
    if (!part.ok() && !mistake_) mistake_ = part.failure();
  }
  std::string Name(std::string_view key) const {
    return place_.empty() ? std::string(key) : Concat(place_, ".", key);
  }

  // Call after the last field. Returns the first mistake; an unknown key is one.
  Result<void> Done() {
    if (object_.is_object()) {
      for (const auto& [key, value] : object_.items()) {
        if (!known_.contains(key)) Refuse(Name(key.substr(0, 40)) + " is no key that is known");
      }
    }
    if (mistake_) return *mistake_;
    return {};
  }

 private:
  const nlohmann::json& object_;
  const std::string place_;
  std::set<std::string> known_;
  std::optional<Failure> mistake_;
};

// The text's object, if its "schema" is this one.
Result<nlohmann::json> ParseSchema(std::string_view text, std::string_view schema, size_t most);

// FNV-1a of the text as 16 hexadecimal digits.
std::string DigestText(std::string_view text);

// Whole numbers of a list, each at most `most`.
template <class Number>
std::vector<Number> NumbersOf(Fields& fields, const nlohmann::json& list, const std::string& name,
                              uint64_t most) {
  std::vector<Number> numbers;
  for (const nlohmann::json& value : list) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > most) {
      fields.Refuse(Concat(name, " has an entry that is no whole number from 0 to ", most));
      return {};
    }
    numbers.push_back(static_cast<Number>(value.get<uint64_t>()));
  }
  return numbers;
}

}  // namespace paceline::plan
