#include "paceline/agent/logs/rank_logs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/model/task.h"

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

// The numbers in directory names g<number>, sorted.
std::vector<uint64_t> GenerationsOf(const std::string& node_dir) {
  std::vector<uint64_t> generations;
  for (const std::string& name : Entries(node_dir)) {
    std::string_view number = name;
    if (!TakePrefix(&number, "g")) continue;
    if (const auto found = ParseWhole<uint64_t>(number)) generations.push_back(*found);
  }
  std::sort(generations.begin(), generations.end());
  return generations;
}

// Allocated bytes, without holes.
uint64_t BytesOf(const std::string& dir) {
  uint64_t bytes = 0;
  for (const std::string& name : Entries(dir)) {
    struct stat found {};
    const std::string path = Concat(dir, "/", name);
    if (::lstat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode)) {
      bytes += static_cast<uint64_t>(found.st_blocks) * 512;
    }
  }
  return bytes;
}

void RemoveGenerationDir(const std::string& dir) {
  for (const std::string& name : Entries(dir)) ::unlink(Concat(dir, "/", name).c_str());
  ::rmdir(dir.c_str());
}

// The file keeps its size, so readers by offset and the appending rank only notice zeros.
void PunchMiddle(const std::string& path, const LogRetention& retention) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return;
  const auto size = static_cast<uint64_t>(found.st_size);
  const uint64_t kept = retention.head_bytes + retention.tail_bytes;
  // Allocated blocks show what earlier holes left. Acts only above a quarter of excess, so that a
  // rank with much output costs few punches.
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
  return Concat(GenerationDir(generation), "/", LogStem(Rank(rank)), ".out");
}

std::string RankLogs::StderrPath(uint64_t generation, uint32_t rank) const {
  return Concat(GenerationDir(generation), "/", LogStem(Rank(rank)), ".err");
}

void RankLogs::OpenGeneration(uint64_t generation, const std::set<uint64_t>& in_use) {
  MakeDirs(GenerationDir(generation), 0700).IgnoreError();
  std::vector<uint64_t> older = GenerationsOf(log_dir_);
  older.erase(std::lower_bound(older.begin(), older.end(), generation), older.end());
  if (!older.empty()) Trim(older.back());
  // The first generation stays, because it shows how the job began.
  for (size_t i = 1; i + retention_.generations_kept < older.size() + 1; ++i) {
    if (!in_use.contains(older[i])) RemoveGenerationDir(GenerationDir(older[i]));
  }
  KeepTotal(generation, in_use);
}

void RankLogs::Note(uint64_t generation, uint32_t rank, const std::string& line) const {
  const std::string path = StderrPath(generation, rank);
  const Fd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (fd.is_open()) (void)!::write(fd.get(), line.data(), line.size());
}

void RankLogs::Trim(uint64_t generation) const {
  const std::string dir = GenerationDir(generation);
  for (const std::string& name : Entries(dir)) {
    PunchMiddle(Concat(dir, "/", name), retention_);
  }
}

void RankLogs::KeepTotal(uint64_t generation, const std::set<uint64_t>& in_use) const {
  if (retention_.total_bytes == 0) return;
  struct Old {
    uint64_t generation;
    std::string dir;
    uint64_t bytes;
  };
  const std::string root = log_dir_.substr(0, log_dir_.rfind('/'));
  uint64_t total = 0;
  std::vector<Old> old;
  for (const std::string& node : Entries(root)) {
    const std::string node_dir = Concat(root, "/", node);
    const std::vector<uint64_t> generations = GenerationsOf(node_dir);
    for (const uint64_t number : generations) {
      const std::string dir = Concat(node_dir, "/g", number);
      const uint64_t bytes = BytesOf(dir);
      total += bytes;
      const bool stays = number == generations.front() || number == generations.back() ||
                         dir == GenerationDir(generation);
      if (!stays) old.push_back({number, dir, bytes});
    }
  }
  std::sort(old.begin(), old.end(), [](const Old& a, const Old& b) {
    return std::tie(a.generation, a.dir) < std::tie(b.generation, b.dir);
  });
  const std::string own = log_dir_ + "/";
  for (const Old& one : old) {
    if (total <= retention_.total_bytes) return;
    total -= one.bytes;
    if (one.dir.starts_with(own) && !in_use.contains(one.generation)) RemoveGenerationDir(one.dir);
  }
}

}  // namespace paceline::agent
