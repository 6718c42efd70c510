#pragma once

// Every setting of paceline, in one table: `paceline config show` lists it, paceline.toml and
// PACELINE_<SECTION>_<NAME> may set each row, and docs/guides/settings.md is made from it. Timers
// and budgets take their defaults from the structs of model/job_spec.h, so each number is written
// once.

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/cli/flags/flag.h"
#include "paceline/model/job_spec.h"

namespace paceline::cli {

struct Setting {
  std::string_view key;  // "timers.lost_after"
  FlagKind kind = FlagKind::kText;
  std::string default_text;  // "" = unset
  std::string_view help;
  std::string_view choices;
  int64_t minimum = 0;  // of integers
  int64_t maximum = std::numeric_limits<int64_t>::max();
  bool zero_allowed = true;  // of durations
  Duration Timers::*timer = nullptr;
  uint32_t Budgets::*budget = nullptr;

  std::string_view section() const { return key.substr(0, key.find('.')); }
  std::string_view name() const { return key.substr(key.find('.') + 1); }
  std::string EnvironmentName() const;  // PACELINE_TIMERS_LOST_AFTER
};

std::span<const Setting> Settings();
const Setting* FindSetting(std::string_view key);
std::vector<std::string_view> SettingKeys();

// Returns true if `text` is a value of the setting. Otherwise *expected describes valid values.
bool IsValueOf(const Setting& setting, std::string_view text, std::string* expected);

}  // namespace paceline::cli
