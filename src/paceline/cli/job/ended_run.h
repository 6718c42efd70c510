#pragma once

// The last processes of a run that has ended: its launcher, its master and its agents.

#include <string>

namespace paceline::cli {

// Waits, for a minute at most, until no process of that run lives on this host. A launcher that
// started earlier would adopt the ended job's master, and end with it. Calls `say` once if it
// waits. Returns at once if the job of the run directory has not ended, or if there is none.
void AwaitEndedRun(const std::string& run_dir, void (*say)(const std::string& text));

}  // namespace paceline::cli
