#include "paceline/cli/job/moved_dir.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "paceline/base/text.h"
#include "paceline/cli/job/job_place.h"

namespace paceline::cli {

std::string RunDirHeldBy(pid_t launcher, const std::string& job_id) {
  constexpr std::string_view kLock = "/lock";
  const std::string files = Concat("/proc/", launcher, "/fd");
  for (const std::string& name : EntriesOf(files)) {
    std::error_code failed;
    std::string path = std::filesystem::read_symlink(Concat(files, "/", name), failed).string();
    if (failed || !path.ends_with(kLock)) continue;
    path.resize(path.size() - kLock.size());
    const auto place = ReadJobPlace(path);
    if (place.ok() && place->id == job_id) return path;
  }
  return "";
}

}  // namespace paceline::cli
