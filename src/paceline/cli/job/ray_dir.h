#pragma once

// The directories that actors of jobs on Ray leave on this host: python/paceline/integrations/ray
// makes and marks them. docs/formats/run_dir.md describes them.

#include <string>
#include <vector>

#include "paceline/cli/console/environment.h"

namespace paceline::cli {

struct RayDir {
  std::string path;
  std::string job;
  std::string part;       // "adapter", "master 2", "node0 1"
  bool is_alive = false;  // its actor runs
  // The adapter's directory holds nothing to read, but the job's credentials.
  bool is_adapter() const { return part == "adapter"; }
  std::string run_dir() const { return path + "/run"; }
};

// Those of this user below $TMPDIR, or /tmp.
std::vector<RayDir> RayDirs(const Environment& environment);

}  // namespace paceline::cli
