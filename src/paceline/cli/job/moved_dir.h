#pragma once

// A run directory that was renamed or moved while its job ran. The launcher holds the lock of the
// directory open, and the kernel knows where that file is now.

#include <sys/types.h>

#include <string>

namespace paceline::cli {

// The run directory of that job whose lock the process `launcher` holds; "" if the directory was
// removed or copied to another disk, or if the process cannot be looked at.
std::string RunDirHeldBy(pid_t launcher, const std::string& job_id);

}  // namespace paceline::cli
