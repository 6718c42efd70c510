#pragma once

// Which Python runs the ranks and their starter, and whether it can.

#include <string>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/settings/settings.h"

namespace paceline::cli {

// launch.python, else PYTHON_EXEC, else the interpreter beside the paceline binary, else python3 or
// python of PATH; absolute. PL-E009 when there is none, or the one asked for cannot be run.
Result<std::string> FindInterpreter(const Environment& environment, const SettingValues& settings,
                                    const HostFacts& facts);

// Finds the module without importing it: fast, and it starts no thread. Some 30 ms.
bool HasModule(const std::string& python, const std::string& module);

// PL-E009 when the interpreter lacks the paceline package. One that stands beside the binary was
// installed together with it and is not asked.
Check CheckInterpreter(const std::string& python, const HostFacts& facts);

}  // namespace paceline::cli
