#pragma once

// The executables of --check on this host.

#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/cli/flags/flag.h"
#include "paceline/cli/settings/settings.h"

namespace paceline::cli {

// All files of --check, which may be given several times, or those of the setting; absolute.
std::vector<std::string> CheckFiles(const ParsedLine& line, const SettingValues& settings,
                                    const std::string& cwd);

// A check that no host could run: it is missing here, or it cannot be started.
Check CheckTheChecks(const std::vector<std::string>& checks, const std::string& host);

}  // namespace paceline::cli
