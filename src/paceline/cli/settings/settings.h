#pragma once

// The values of all settings and where each came from:
// flag > PACELINE_* > PET_* > ./paceline.toml > user's config.toml > default.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/flags/flag.h"
#include "paceline/cli/settings/setting.h"

namespace paceline::cli {

struct SettingValue {
  std::string text;    // as IsValueOf accepts it; "" = unset
  std::string origin;  // "default", "./paceline.toml:3", "PACELINE_JOB_SPARES", "--spares"
};

class SettingValues {
 public:
  SettingValues();  // all defaults

  const SettingValue& Get(std::string_view key) const;
  bool IsSet(std::string_view key) const { return !Get(key).text.empty(); }
  bool IsDefault(std::string_view key) const { return Get(key).origin == "default"; }

  const std::string& Text(std::string_view key) const { return Get(key).text; }
  int64_t Integer(std::string_view key) const;
  bool OnOff(std::string_view key) const;
  Duration Time(std::string_view key) const;
  uint64_t Size(std::string_view key) const;
  std::vector<std::string> List(std::string_view key) const;

  void Set(std::string_view key, SettingValue value);

 private:
  std::map<std::string, SettingValue, std::less<>> values_;
};

// One setting of a file.
struct FileSetting {
  std::string key;
  std::string text;
  size_t line = 0;
};

// Reads TOML. Pure: `shown_path` is for messages only.
Result<std::vector<FileSetting>> ParseSettingsFile(std::string_view text,
                                                   const std::string& shown_path);

struct SettingSources {
  Environment environment;
  std::string project_file;  // "" = none; a missing file is no error
  std::string user_file;
  const ParsedLine* line = nullptr;
};

// Paths as documented, for this environment.
SettingSources StandardSources(const Environment& environment, const ParsedLine* line);

Result<SettingValues> LoadSettings(const SettingSources& sources);

// PACELINE_* variables that are not settings but resemble one; for a warning.
std::vector<Problem> MisspeltVariables(const Environment& environment);

}  // namespace paceline::cli
