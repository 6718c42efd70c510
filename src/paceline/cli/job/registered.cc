#include "paceline/cli/job/registered.h"

#include <dirent.h>

#include <memory>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/model/job_file_limit.h"

namespace paceline::cli {

std::vector<std::pair<std::string, JobCard>> Registered(const std::string& runtime_dir,
                                                        const std::string& address) {
  std::vector<std::pair<std::string, JobCard>> found;
  const std::string jobs = runtime_dir + "/jobs";
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(jobs.c_str()), &::closedir);
  while (dir != nullptr) {
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    const std::string text = ReadText(Concat(jobs, "/", entry->d_name), kJobFileBytesMax);
    const std::string run_dir = RunDirOfEntry(text);
    if (run_dir.empty()) continue;
    auto card = ReadJobCard(run_dir);
    if (card.ok() && card->master_address == address) found.emplace_back(run_dir, *card);
  }
  return found;
}

std::string RunDirOfLivingMaster(const std::vector<std::pair<std::string, JobCard>>& registered) {
  for (const auto& [run_dir, card] : registered) {
    // The card may not name the master yet: its launcher starts it, and again after its death.
    const bool is_kept = card.has_master && agent::IsAlive(card.launcher);
    if (is_kept || agent::IsAlive(card.master)) return run_dir;
  }
  return "";
}

}  // namespace paceline::cli
