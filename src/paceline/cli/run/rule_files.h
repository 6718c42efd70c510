#pragma once

// The files of [log] rules, with the user's own classes of failures.

#include <string>
#include <vector>

#include "paceline/cli/console/error.h"
#include "paceline/cli/settings/settings.h"

namespace paceline::cli {

// Their paths, absolute.
std::vector<std::string> RuleFiles(const SettingValues& settings, const std::string& cwd);

// The first of their problems on this host: a file that cannot be read, or a rule that is not
// usable.
Check CheckRuleFiles(const std::vector<std::string>& files);

}  // namespace paceline::cli
