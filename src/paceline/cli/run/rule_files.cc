#include "paceline/cli/run/rule_files.h"

#include "paceline/agent/ranks/log_rules.h"
#include "paceline/base/text.h"

namespace paceline::cli {

std::vector<std::string> RuleFiles(const SettingValues& settings, const std::string& cwd) {
  std::vector<std::string> files = settings.List("log.rules");
  for (std::string& file : files) {
    if (!file.starts_with("/")) file = Concat(cwd, "/", file);
  }
  return files;
}

Check CheckRuleFiles(const std::vector<std::string>& files) {
  if (files.empty()) return std::nullopt;
  return ProblemOf(agent::ReadLogRules(files).status());
}

}  // namespace paceline::cli
