#pragma once

// How the newest master of this host's job ended before its job did: the launcher, its parent, sees
// it and adds it to job.json, for `paceline why`.

#include <cstdint>
#include <string>

namespace paceline::cli {

struct MasterEnd {
  int pid = 0;
  int status = 0;        // as of waitpid
  bool is_known = true;  // false: the launcher was not its parent, so there is no status
  int64_t at_ns = 0;     // since 1970
};

// A failure to write is ignored, because the job goes on without it.
void KeepMasterEnd(const std::string& run_dir, const MasterEnd& end);

// "the master before it, process 12, was killed by SIGKILL from outside (14:02:11.0); …". "" if
// none ended in the minute before `took_over_ns`, when the next master took over.
std::string MasterEndText(const std::string& run_dir, int64_t took_over_ns);

}  // namespace paceline::cli
