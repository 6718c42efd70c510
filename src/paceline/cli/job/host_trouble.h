#pragma once

// What troubles a job and can only be seen on its host: the master does not know it, and a detached
// job has no console that says it.

#include <string>
#include <vector>

#include "paceline/cli/console/error.h"
#include "paceline/cli/job/job_place.h"

namespace paceline::cli {

// The sentence about a full disk of the run directory while the job runs.
std::string FullDiskText(const std::string& run_dir);

// The sentence about a job that runs without its launcher.
std::string NoLauncherText(const JobPlace& place);

// Whether an agent of the job lives on this host.
bool HasAgents(const JobPlace& place);

// PL-E030 for a command about a job of which only agents and ranks live here.
Problem NobodyLeads(const JobPlace& place);

// One sentence for each trouble of now. `is_over`: the job has ended. How long a disk has been full
// is not known here.
std::vector<std::string> HostTroubles(const JobPlace& place, bool is_over);

}  // namespace paceline::cli
