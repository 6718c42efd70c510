#include "paceline/agent/rank_logs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr uint64_t kHoleAlignment = 4096;

std::vector<std::string> Entries(const std::string& dir) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open_dir(::opendir(dir.c_str()), &::closedir);
  if (open_dir == nullptr) return names;
  while (const dirent* entry = ::readdir(open_dir.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

void RemoveGenerationDir(const std::string& dir) {
  for (const std::string& name : Entries(dir)) ::unlink(Concat(dir, "/", name).c_str());
  ::rmdir(dir.c_str());
}

// The file keeps its size: readers by offset and the appending rank see no change but zeros.
void PunchMiddle(const std::string& path, const LogRetention& retention) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return;
  const auto size = static_cast<uint64_t>(found.st_size);
  const uint64_t kept = retention.head_bytes + retention.tail_bytes;
  // Blocks, not the size, say what is left after earlier holes. Waits for a quarter too much, so
  // that a chatty rank costs one call in many.
  if (static_cast<uint64_t>(found.st_blocks) * 512 < kept + kept / 4 || size < kept) return;
  const uint64_t begin = retention.head_bytes / kHoleAlignment * kHoleAlignment;
  const uint64_t end = (size - retention.tail_bytes) / kHoleAlignment * kHoleAlignment;
  if (end <= begin) return;
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.is_open()) return;
  ::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
              static_cast<off_t>(end - begin));
}

}  // namespace

RankLogs::RankLogs(std::string log_dir, LogRetention retention)
    : log_dir_(std::move(log_dir)), retention_(retention) {}

std::string RankLogs::GenerationDir(uint64_t generation) const {
  return Concat(log_dir_, "/g", generation);
}

std::string RankLogs::StdoutPath(uint64_t generation, uint32_t rank) const {
  return Concat(GenerationDir(generation), "/rank", rank, ".out");
}

std::string RankLogs::StderrPath(uint64_t generation, uint32_t rank) const {
  return Concat(GenerationDir(generation), "/rank", rank, ".err");
}

void RankLogs::OpenGeneration(uint64_t generation) {
  MakeDirs(GenerationDir(generation), 0700).IgnoreError();
  std::vector<uint64_t> generations;
  for (const std::string& name : Entries(log_dir_)) {
    std::string_view number = name;
    if (!TakePrefix(&number, "g")) continue;
    if (const auto found = ParseWhole<uint64_t>(number)) generations.push_back(*found);
  }
  std::sort(generations.begin(), generations.end());
  // The first generation is kept for ever: it shows how the job began.
  for (size_t i = 1; i + retention_.generations_kept < generations.size(); ++i) {
    RemoveGenerationDir(GenerationDir(generations[i]));
  }
}

void RankLogs::Trim(uint64_t generation) const {
  const std::string dir = GenerationDir(generation);
  for (const std::string& name : Entries(dir)) {
    PunchMiddle(Concat(dir, "/", name), retention_);
  }
}

}  // namespace paceline::agent
