#include <cstdint>
#include <stdexcept>

#include "paceline/cli/settings.h"
#include "paceline/cli/text.h"
#include "paceline/cli/value.h"

// The one place with exceptions. Some broken files fail an assertion inside of toml++ 3.3; it
// becomes an exception too, so that no file can end the process.
#define TOML_EXCEPTIONS 1
#define TOML_ASSERT(expression)                                        \
  do {                                                                 \
    if (!(expression)) throw std::logic_error("not a key or a value"); \
  } while (false)
// A few of its assertions stand in noexcept functions, which values and keys do not reach.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wterminate"
#include <toml++/toml.h>
#pragma GCC diagnostic pop

namespace paceline::cli {
namespace {

std::string LineWithCaret(std::string_view text, const std::string& shown_path,
                          toml::source_position at, size_t length) {
  const auto lines = SplitLines(text);
  std::string where = shown_path + ":" + std::to_string(at.line);
  if (at.line == 0 || at.line > lines.size()) return where;
  constexpr size_t kLineMax = 90;
  const std::string line = Clip(Visible(lines[at.line - 1]), kLineMax);
  const size_t column = at.column > 0 ? at.column - 1 : 0;
  where += "\n| " + line;
  if (column < kLineMax) {
    where +=
        "\n| " + std::string(column, ' ') + "^" + std::string(length > 1 ? length - 1 : 0, '~');
  }
  return where;
}

class FileReader {
 public:
  FileReader(std::string_view text, const std::string& shown_path)
      : text_(text), path_(shown_path) {}

  Result<std::vector<FileSetting>> Read(const toml::table& root) {
    for (auto&& [section, node] : root) {
      const toml::table* table = node.as_table();
      if (table == nullptr || !IsSection(section.str())) return UnknownSection(section, node);
      for (auto&& [name, value] : *table) {
        if (Check problem = Take(section.str(), name, value)) return *std::move(problem);
      }
    }
    return std::move(found_);
  }

 private:
  static std::vector<std::string_view> Sections() {
    std::vector<std::string_view> sections;
    for (const Setting& setting : Settings()) {
      if (sections.empty() || sections.back() != setting.section()) {
        sections.push_back(setting.section());
      }
    }
    return sections;
  }

  static bool IsSection(std::string_view name) {
    for (const std::string_view section : Sections()) {
      if (section == name) return true;
    }
    return false;
  }

  Problem UnknownSection(const toml::key& key, const toml::node& node) const {
    std::string fix;
    for (const Setting& setting : Settings()) {
      if (!node.is_table() && setting.name() == key.str()) {
        fix = "put it under [" + std::string(setting.section()) + "]";
      }
    }
    if (fix.empty()) {
      const std::string_view nearest = Nearest(key.str(), Sections());
      fix =
          nearest.empty() ? "paceline config show" : "did you mean [" + std::string(nearest) + "]?";
    }
    return Problem{
        .code = "PL-E012",
        .what = "there is no " + std::string(node.is_table() ? "section [" : "setting ") +
                std::string(key.str()) + (node.is_table() ? "]" : " outside of a section"),
        .where = LineWithCaret(text_, path_, key.source().begin, key.str().size()),
        .why = "misspelt settings would be without effect, so they are refused",
        .fix = fix};
  }

  Check Take(std::string_view section, const toml::key& name, const toml::node& value) {
    const std::string key = std::string(section) + "." + std::string(name.str());
    const Setting* setting = FindSetting(key);
    if (setting == nullptr) return UnknownSetting(key, name);
    std::string expected;
    const auto text = AsText(*setting, value, &expected);
    if (!text.has_value() || !IsValueOf(*setting, *text, &expected)) {
      return Problem{.code = "PL-E013",
                     .what = key + " has an unusable value",
                     .where = LineWithCaret(text_, path_, value.source().begin, 1),
                     .why = "it takes " + expected,
                     .fix = std::string(name.str()) + " = " + Example(*setting)};
    }
    found_.push_back({key, *text, value.source().begin.line});
    return std::nullopt;
  }

  Problem UnknownSetting(const std::string& key, const toml::key& name) const {
    std::vector<std::string_view> keys = SettingKeys();
    const std::string_view nearest = Nearest(key, keys);
    return Problem{.code = "PL-E012",
                   .what = "there is no setting " + key,
                   .where = LineWithCaret(text_, path_, name.source().begin, name.str().size()),
                   .why = "misspelt settings would be without effect, so they are refused",
                   .fix = nearest.empty() ? "paceline config show"
                                          : "did you mean " + std::string(nearest) + "?"};
  }

  // The value as a flag would give it; empty when the TOML type does not fit.
  static std::optional<std::string> AsText(const Setting& setting, const toml::node& value,
                                           std::string* expected) {
    switch (setting.kind) {
      case FlagKind::kSwitch:
      case FlagKind::kOnOff:
        *expected = "true or false";
        if (const auto b = value.value_exact<bool>()) return *b ? "on" : "off";
        break;
      case FlagKind::kInteger:
        *expected = "a whole number";
        if (const auto i = value.value_exact<int64_t>()) return std::to_string(*i);
        return std::nullopt;
      case FlagKind::kNumber:
        *expected = "a number";
        if (const auto d = value.value<double>()) return std::to_string(*d);
        return std::nullopt;
      case FlagKind::kText:
        *expected = "a string";
        if (const auto i = value.value_exact<int64_t>()) return std::to_string(*i);
        break;
      case FlagKind::kList: return ListText(value, expected);
      case FlagKind::kDuration:
        *expected = "a string with a unit, such as \"250ms\" or \"30s\"";
        break;
      case FlagKind::kSize:
        *expected = "a string with a unit, such as \"512MiB\" or \"10GiB\"";
        break;
      case FlagKind::kChoice: *expected = "one of " + std::string(setting.choices); break;
    }
    if (const auto s = value.value_exact<std::string>()) return *s;
    return std::nullopt;
  }

  static std::optional<std::string> ListText(const toml::node& value, std::string* expected) {
    *expected = "an array of strings";
    const toml::array* array = value.as_array();
    if (array == nullptr) return std::nullopt;
    std::string joined;
    for (const toml::node& item : *array) {
      const auto text = item.value_exact<std::string>();
      if (!text.has_value()) return std::nullopt;
      if (!joined.empty()) joined += ',';
      for (const char c : *text) joined += c == ',' ? ",," : std::string(1, c);
    }
    return joined;
  }

  static std::string Example(const Setting& setting) {
    switch (setting.kind) {
      case FlagKind::kSwitch:
      case FlagKind::kOnOff: return "true";
      case FlagKind::kInteger:
      case FlagKind::kNumber:
        return setting.default_text.empty() ? std::to_string(setting.minimum)
                                            : setting.default_text;
      case FlagKind::kList: return "[\"…\"]";
      case FlagKind::kChoice: return "\"" + Split(setting.choices, '|').front() + "\"";
      default: return "\"" + setting.default_text + "\"";
    }
  }

  std::string_view text_;
  const std::string& path_;
  std::vector<FileSetting> found_;
};

}  // namespace

Result<std::vector<FileSetting>> ParseSettingsFile(std::string_view text,
                                                   const std::string& shown_path) {
  toml::table root;
  try {
    root = toml::parse(text, shown_path);
  } catch (const toml::parse_error& error) {
    return Problem{.code = "PL-E011",
                   .what = shown_path + " is not valid TOML",
                   .where = LineWithCaret(text, shown_path, error.source().begin, 1),
                   .why = std::string(error.description()),
                   .fix = "correct the line; strings need quotes"};
  } catch (const std::logic_error& error) {
    return Problem{.code = "PL-E011",
                   .what = shown_path + " is not valid TOML",
                   .where = shown_path,
                   .why = error.what(),
                   .fix = "shorten the file until it is accepted; strings need quotes"};
  }
  return FileReader(text, shown_path).Read(root);
}

}  // namespace paceline::cli
