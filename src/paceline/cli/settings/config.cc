// `paceline config`: shows the current settings, and prints the pages that are made from tables.

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/error_codes.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/flags/flags_page.h"
#include "paceline/cli/flags/torchrun_flags.h"
#include "paceline/cli/run/request.h"
#include "paceline/cli/settings/settings_page.h"
#include "paceline/cli/settings/value.h"
#include "paceline/logclass/builtin.h"
#include "paceline/logclass/classes_page.h"
#include "paceline/master/report/metrics.h"

namespace paceline::cli {
namespace {

constexpr Flag kConfigFlags[] = {
    {.dest = "origin",
     .spellings = {"--origin"},
     .kind = FlagKind::kSwitch,
     .help = "also say where each value comes from"},
};

Problem Usage(const std::string& what) {
  return Problem{.code = "PL-E010",
                 .what = what,
                 .where = "paceline config",
                 .why =
                     "it takes: show [--origin] [KEY], or docs "
                     "settings|errors|flags|classes|metrics",
                 .fix = "paceline config show"};
}

bool Matches(const Setting& setting, const std::vector<std::string>& words) {
  if (words.size() < 2) return true;
  return setting.key == words[1] || setting.section() == words[1];
}

// As paceline.toml writes it, where that differs from what a flag takes: a list is an array there.
std::string ShownValue(const Setting& setting, const SettingValue& value) {
  if (value.text.empty()) return "-";
  if (setting.kind != FlagKind::kList) return Visible(value.text);
  std::string array;
  for (const std::string& item : ParseCommaList(value.text)) {
    // A JSON string is a TOML string.
    Append(&array, array.empty() ? "" : ", ", PrintJson(nlohmann::json(item)));
  }
  return Concat("[", array, "]");
}

int ShowSettings(Invocation& invocation) {
  Output& out = invocation.out;
  const std::vector<std::string>& words = invocation.line.positionals;
  const bool with_origin = invocation.line.Has("origin");
  nlohmann::ordered_json json;
  json["schema"] = "paceline.config/1";
  std::vector<std::vector<std::string>> rows = {{"SETTING", "VALUE"}};
  if (with_origin) rows[0].push_back("FROM");
  bool any = false;
  for (const Setting& setting : Settings()) {
    if (!Matches(setting, words)) continue;
    any = true;
    const SettingValue& value = invocation.settings.Get(setting.key);
    json["settings"][std::string(setting.key)] = {{"value", value.text}, {"origin", value.origin}};
    rows.push_back({std::string(setting.key), ShownValue(setting, value)});
    if (with_origin) rows.back().push_back(value.origin);
  }
  if (!any) {
    const std::string_view nearest = Nearest(words[1], SettingKeys());
    return out.Fail({.code = "PL-E012",
                     .what = "there is no setting " + words[1],
                     .where = "paceline config show",
                     .fix = nearest.empty() ? "paceline config show"
                                            : "did you mean " + std::string(nearest) + "?"});
  }
  if (out.is_json()) {
    out.DataLine(PrintJson(json));
  } else {
    out.Rows(rows);
  }
  for (const Problem& problem : MisspeltVariables(invocation.environment)) out.Warn(problem);
  return kExitDone;
}

int Docs(Invocation& invocation) {
  const std::vector<std::string>& words = invocation.line.positionals;
  const std::string page = words.size() > 1 ? words[1] : "";
  if (page == "settings") {
    invocation.out.Data(SettingsMarkdown());
  } else if (page == "errors") {
    invocation.out.Data(ErrorCodesMarkdown());
  } else if (page == "flags") {
    invocation.out.Data(FlagsMarkdown());
  } else if (page == "classes") {
    invocation.out.Data(logclass::ClassesPage(logclass::BuiltinRules()));
  } else if (page == "metrics") {
    invocation.out.Data(master::MetricsMarkdown());
  } else {
    return invocation.out.Fail(Usage("there is no page \"" + page + "\""));
  }
  return kExitDone;
}

// For the test that compares our parser with torchrun's.
int ParseTorchrun(Invocation& invocation) {
  const std::vector<std::string> args(invocation.line.positionals.begin() + 1,
                                      invocation.line.positionals.end());
  const Grammar grammar{.command = "torchrun",
                        .tables = {TorchrunFlags()},
                        .stops_at_script = true,
                        .drops_separator = true};
  auto line = ParseFlags(grammar, args);
  if (!line.ok()) return invocation.out.Fail(line.problem());
  auto values = ResolveTorchrun(*line, invocation.environment);
  if (!values.ok()) return invocation.out.Fail(values.problem());
  if (line->positionals.empty()) return invocation.out.Fail(Usage("no script"));
  invocation.out.DataLine(TorchrunNamespaceJson(*values, line->positionals));
  return kExitDone;
}

int TorchrunTable(Invocation& invocation) {
  nlohmann::ordered_json json = nlohmann::json::array();
  for (const Flag& flag : TorchrunFlags()) {
    nlohmann::ordered_json row;
    row["dest"] = flag.dest;
    for (const std::string_view spelling : flag.spellings) {
      if (!spelling.empty()) row["spellings"].push_back(spelling);
    }
    row["takes_value"] = flag.kind != FlagKind::kSwitch;
    json.push_back(row);
  }
  invocation.out.DataLine(PrintJson(json));
  return kExitDone;
}

}  // namespace

FlagTable ConfigFlags() { return kConfigFlags; }

int RunConfig(Invocation& invocation) {
  const std::vector<std::string>& words = invocation.line.positionals;
  const std::string verb = words.empty() ? "show" : words.front();
  if (verb == "parse-torchrun") return ParseTorchrun(invocation);
  if (verb == "torchrun-table") return TorchrunTable(invocation);
  if (words.size() > 2) return invocation.out.Fail(Usage("an argument too many: " + words[2]));
  if (verb == "show") return ShowSettings(invocation);
  if (verb == "docs") return Docs(invocation);
  return invocation.out.Fail(Usage("paceline config cannot " + verb));
}

}  // namespace paceline::cli
