#include "paceline/cli/job/ray_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/cli/job/job_place.h"

namespace paceline::cli {
namespace {

constexpr char kRayMark[] = "ray.json";
constexpr size_t kRayMarkBytesMax = 4096;

// Others may make directories in /tmp, so only what this user alone can read and write counts.
bool IsOfUserAlone(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == getuid() && (status.st_mode & 077) == 0;
}

}  // namespace

std::vector<RayDir> RayDirs(const Environment& environment) {
  std::vector<RayDir> found;
  const std::string top = LookupOr(environment, "TMPDIR", "/tmp");
  for (const std::string& name : EntriesOf(top)) {
    const std::string path = Concat(top, "/", name);
    if (!name.starts_with("paceline-") || !IsOfUserAlone(path)) continue;
    const auto mark = ParseJson(ReadText(Concat(path, "/", kRayMark), kRayMarkBytesMax));
    if (JsonText(mark, "schema") != "paceline.ray/1") continue;
    RayDir dir{.path = path, .job = JsonText(mark, "job"), .part = JsonText(mark, "part")};
    if (const auto actor = mark.find("actor"); actor != mark.end()) {
      const agent::ProcessId process{JsonInt<pid_t>(*actor, "pid"),
                                     JsonInt<uint64_t>(*actor, "start_time")};
      dir.is_alive = agent::IsAlive(process);
    }
    found.push_back(std::move(dir));
  }
  return found;
}

}  // namespace paceline::cli
