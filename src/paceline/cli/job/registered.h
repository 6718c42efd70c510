#pragma once

// The run directories on this host of the job at an address, from this user's registry.

#include <string>
#include <utility>
#include <vector>

#include "paceline/cli/job/run_dir.h"

namespace paceline::cli {

// Run directories and cards, from the registry.
std::vector<std::pair<std::string, JobCard>> Registered(const std::string& runtime_dir,
                                                        const std::string& address);

// The run directory among them whose master, or the launcher
// that starts it, lives on this host; "" for none.
std::string RunDirOfLivingMaster(const std::vector<std::pair<std::string, JobCard>>& registered);

}  // namespace paceline::cli
