#include "paceline/cli/settings/settings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "paceline/base/check.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/flags/torchrun_flags.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

constexpr off_t kFileBytesMax = 1 << 20;

Problem CannotRead(const std::string& path, const std::string& why) {
  return Problem{.code = "PL-E014",
                 .what = "the settings file " + path + " cannot be read",
                 .where = path,
                 .why = why,
                 .fix = "chmod u+r " + ShellWord(path) + ", or move it elsewhere"};
}

// Empty if there is no such file.
Result<std::optional<std::string>> ReadSmallFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int failed = errno;
    if (failed == ENOENT || failed == ENOTDIR) return std::optional<std::string>();
    // A folder of another user, such as a foreign HOME in a container, has no settings of this
    // user.
    struct stat status {};
    if (failed == EACCES && stat(path.c_str(), &status) != 0) return std::optional<std::string>();
    return CannotRead(path, std::strerror(failed));
  }
  struct stat status {};
  std::string why;
  std::string text;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    why = "it is not a regular file";
  } else if (status.st_size > kFileBytesMax) {
    why = "it is larger than 1 MiB";
  } else {
    text.resize(static_cast<size_t>(status.st_size));
    const ssize_t got = read(fd, text.data(), text.size());
    if (got < 0) why = std::strerror(errno);
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
  }
  close(fd);
  if (!why.empty()) return CannotRead(path, why);
  return std::optional<std::string>(std::move(text));
}

Check ApplyFile(const std::string& path, SettingValues& values) {
  if (path.empty()) return std::nullopt;
  auto text = ReadSmallFile(path);
  if (!text.ok()) return text.problem();
  if (!text->has_value()) return std::nullopt;
  auto settings = ParseSettingsFile(**text, path);
  if (!settings.ok()) return settings.problem();
  for (const FileSetting& setting : *settings) {
    values.Set(setting.key, {setting.text, path + ":" + std::to_string(setting.line)});
  }
  return std::nullopt;
}

// A flag's value, converted to the form of its setting.
std::string SettingText(const Flag& flag, const std::string& value) {
  if (flag.kind == FlagKind::kSwitch) return value == "0" ? "off" : "on";
  if (flag.dest == "shutdown_timeout") return value + "s";
  return value;
}

Problem BadValue(const std::string& source, const std::string& value, const std::string& expected,
                 bool is_variable) {
  return Problem{.code = is_variable ? "PL-E015" : "PL-E003",
                 .what = source + " cannot be \"" + value + "\"",
                 .where = (is_variable ? "the environment variable " : "the flag ") + source,
                 .why = "it takes " + expected,
                 .fix = is_variable ? "unset " + source : "paceline run --help"};
}

Check SetChecked(SettingValues& values, std::string_view key, const std::string& text,
                 const std::string& source, bool is_variable) {
  const Setting* setting = FindSetting(key);
  CHECK(setting != nullptr);
  std::string expected;
  if (!IsValueOf(*setting, text, &expected)) return BadValue(source, text, expected, is_variable);
  values.Set(key, {text, source});
  return std::nullopt;
}

Check ApplyPet(const Environment& environment, SettingValues& values) {
  auto pet = ResolveTorchrun({}, environment);
  if (!pet.ok()) return pet.problem();
  for (const Flag& flag : TorchrunFlags()) {
    if (!flag.from_pet || flag.setting.empty()) continue;
    const std::string name = PetName(flag);
    const auto given = Lookup(environment, name);
    if (!given.has_value() || given->empty()) continue;
    const std::string text = SettingText(flag, (*pet)[std::string(flag.dest)]);
    if (Check problem = SetChecked(values, flag.setting, text, name, true)) return problem;
  }
  return std::nullopt;
}

Check ApplyEnvironment(const Environment& environment, SettingValues& values) {
  for (const Setting& setting : Settings()) {
    const std::string name = setting.EnvironmentName();
    const auto text = Lookup(environment, name);
    if (!text.has_value() || text->empty()) continue;
    if (Check problem = SetChecked(values, setting.key, *text, name, true)) return problem;
  }
  return std::nullopt;
}

Check ApplyFlags(const ParsedLine& line, SettingValues& values) {
  for (const Given& given : line.given) {
    if (given.flag->setting.empty()) continue;
    // --stop-grace is the exact form of --shutdown-timeout and wins whatever the order.
    if (given.flag->dest == "shutdown_timeout" && line.Has("stop_grace")) continue;
    const std::string text = SettingText(*given.flag, given.value);
    const std::string source(given.flag->spellings[0]);
    if (text.empty()) {
      values.Set(given.flag->setting, {"", source});
      continue;
    }
    if (Check problem = SetChecked(values, given.flag->setting, text, source, false)) {
      return problem;
    }
  }
  return std::nullopt;
}

}  // namespace

SettingValues::SettingValues() {
  for (const Setting& setting : Settings()) {
    values_.emplace(setting.key, SettingValue{setting.default_text, "default"});
  }
}

const SettingValue& SettingValues::Get(std::string_view key) const {
  const auto found = values_.find(key);
  CHECK(found != values_.end());
  return found->second;
}

void SettingValues::Set(std::string_view key, SettingValue value) {
  const auto found = values_.find(key);
  CHECK(found != values_.end());
  found->second = std::move(value);
}

int64_t SettingValues::Integer(std::string_view key) const {
  return ParseInteger(Text(key)).value_or(0);
}
bool SettingValues::OnOff(std::string_view key) const {
  return ParseOnOff(Text(key)).value_or(false);
}
Duration SettingValues::Time(std::string_view key) const {
  return ParseDuration(Text(key)).value_or(Duration());
}
uint64_t SettingValues::Size(std::string_view key) const {
  return ParseSize(Text(key)).value_or(0);
}
std::vector<std::string> SettingValues::List(std::string_view key) const {
  if (Text(key).empty()) return {};
  return ParseCommaList(Text(key));
}

SettingSources StandardSources(const Environment& environment, const ParsedLine* line) {
  SettingSources sources{.environment = environment, .project_file = "paceline.toml", .line = line};
  const std::string home = LookupOr(environment, "HOME", "");
  const std::string config =
      LookupOr(environment, "XDG_CONFIG_HOME", home.empty() ? "" : home + "/.config");
  if (!config.empty()) sources.user_file = config + "/paceline/config.toml";
  return sources;
}

Result<SettingValues> LoadSettings(const SettingSources& sources) {
  SettingValues values;
  if (Check problem = ApplyFile(sources.user_file, values)) return *std::move(problem);
  if (Check problem = ApplyFile(sources.project_file, values)) return *std::move(problem);
  if (Check problem = ApplyPet(sources.environment, values)) return *std::move(problem);
  if (Check problem = ApplyEnvironment(sources.environment, values)) return *std::move(problem);
  if (sources.line != nullptr) {
    if (Check problem = ApplyFlags(*sources.line, values)) return *std::move(problem);
  }
  return values;
}

std::vector<Problem> MisspeltVariables(const Environment& environment) {
  std::vector<std::string> names;
  for (const Setting& setting : Settings()) names.push_back(setting.EnvironmentName());
  std::vector<std::string_view> candidates(names.begin(), names.end());
  std::vector<Problem> problems;
  for (const auto& [name, value] : environment) {
    if (!name.starts_with("PACELINE_")) continue;
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string_view nearest = Nearest(name, candidates);
    if (nearest.empty() || EditDistance(name, nearest) > 2) continue;
    problems.push_back({.code = "PL-W008",
                        .what = "the variable " + name + " has no effect",
                        .where = "the environment",
                        .why = "there is no such setting",
                        .fix = "did you mean " + std::string(nearest) + "?"});
  }
  return problems;
}

}  // namespace paceline::cli
