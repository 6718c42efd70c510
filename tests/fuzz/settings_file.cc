// paceline.toml: every text is settings or a problem in four parts.

#include "paceline/cli/settings/settings.h"
#include "parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace cli = paceline::cli;
  const auto settings = cli::ParseSettingsFile(paceline::fuzz::AsText(data, size), "paceline.toml");
  if (!settings.ok()) {
    const paceline::Problem& problem = settings.problem();
    paceline::fuzz::Demand(!problem.what.empty() && !problem.where.empty() &&
                               !problem.why.empty() && !problem.fix.empty(),
                           "a problem has four parts");
    return 0;
  }
  cli::SettingValues values;
  for (const cli::FileSetting& setting : *settings) {
    paceline::fuzz::Demand(cli::FindSetting(setting.key) != nullptr, "only settings are given");
    values.Set(setting.key, {setting.text, "paceline.toml"});
  }
  for (const cli::Setting& setting : cli::Settings()) {
    if (!values.IsSet(setting.key)) continue;
    if (setting.kind == cli::FlagKind::kInteger) (void)values.Integer(setting.key);
    if (setting.kind == cli::FlagKind::kDuration) (void)values.Time(setting.key);
    if (setting.kind == cli::FlagKind::kSize) (void)values.Size(setting.key);
    if (setting.kind == cli::FlagKind::kList) (void)values.List(setting.key);
  }
  return 0;
}
