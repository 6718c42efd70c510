#pragma once

#include <string>
#include <vector>

#include "paceline/base/result.h"

namespace paceline::cli {

// A problem if this host has no such program: a user would miss the notices only when something
// has failed. A name without a slash is looked up in `path` (PATH), another one from `cwd`.
Check CheckNotifyCommand(const std::vector<std::string>& command, const std::string& path,
                         const std::string& cwd);

}  // namespace paceline::cli
