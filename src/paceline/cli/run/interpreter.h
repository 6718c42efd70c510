#pragma once

// Finds the Python interpreter for the ranks and their starter, and checks that it can run them.

#include <string>
#include <vector>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/settings/settings.h"

namespace paceline::cli {

// launch.python, else PYTHON_EXEC, else the interpreter beside the paceline binary, else that of
// VIRTUAL_ENV, else python3 or python of PATH; absolute. PL-E009 if there is none, or the first one
// that is there cannot be run by this user: no other one takes its place.
Result<std::string> FindInterpreter(const Environment& environment, const SettingValues& settings,
                                    const HostFacts& facts);

// Looks for the module without importing it, which takes some 30 ms and starts no thread.
bool HasModule(const std::string& python, const std::string& module);

// PL-E003 if the interpreter does not find one of the modules. It imports none of them.
Check CheckPreload(const std::string& python, const std::vector<std::string>& modules);

// PL-E009 if the interpreter does not have the paceline package. The interpreter beside the binary
// is not checked, because both were installed together.
Check CheckInterpreter(const std::string& python, const HostFacts& facts);

}  // namespace paceline::cli
