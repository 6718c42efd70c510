#pragma once

// What `paceline run` of this user has on this host of the job at an address.

#include <string>
#include <utility>
#include <vector>

#include "paceline/cli/job/run_dir.h"

namespace paceline::cli {

// Run directories and cards, from the registry.
std::vector<std::pair<std::string, JobCard>> Registered(const std::string& runtime_dir,
                                                        const std::string& address);

// Of those, the one whose master lives on this host; "" for none.
std::string RunDirOfLivingMaster(const std::vector<std::pair<std::string, JobCard>>& registered);

}  // namespace paceline::cli
