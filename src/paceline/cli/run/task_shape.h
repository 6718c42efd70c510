#pragma once

// The tasks of a run: --tf, --tables, --workers, --ps and --evaluator.

#include "paceline/cli/console/error.h"
#include "paceline/cli/flags/flag.h"
#include "paceline/cli/run/request.h"
#include "paceline/cli/settings/settings.h"

namespace paceline::cli {

// Adds the tasks to a request whose nodes are known, and gives each node enough slots for them
// unless the user chose a number. Does nothing without these flags.
Check TakeTasks(const ParsedLine& line, const SettingValues& settings, RunRequest* request);

}  // namespace paceline::cli
