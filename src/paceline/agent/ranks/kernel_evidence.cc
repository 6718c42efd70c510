#include "paceline/agent/ranks/kernel_evidence.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr size_t kKernelFileBytes = 64 << 10;
constexpr size_t kRecentLogBytes = 64 << 10;

bool Exists(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

}  // namespace

std::string OomCounterPath(std::string_view proc_cgroup, const std::string& root) {
  std::string found;
  for (std::string_view line : SplitParts(proc_cgroup, "\n")) {
    // "hierarchy:controllers:path"; cgroup v2 has no controllers.
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    std::vector<std::string> candidates;
    if (controllers.empty()) {
      candidates = {Concat(root, "sys/fs/cgroup", path, "/memory.events"),
                    Concat(root, "sys/fs/cgroup/unified", path, "/memory.events")};
    } else if (controllers == "memory") {
      candidates = {Concat(root, "sys/fs/cgroup/memory", path, "/memory.oom_control"),
                    // In a container the mount point may be this very cgroup.
                    Concat(root, "sys/fs/cgroup/memory/memory.oom_control")};
    }
    for (const std::string& candidate : candidates) {
      if (found.empty() && Exists(candidate)) found = candidate;
    }
  }
  return found;
}

KernelEvidence::KernelEvidence(std::string root)
    : root_(std::move(root)),
      counter_path_(
          OomCounterPath(ReadText(Concat(root_, "proc/self/cgroup"), kKernelFileBytes), root_)),
      kill_count_(ReadKillCount()),
      log_(::open(Concat(root_, "dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (log_.is_open()) ::lseek(log_.get(), 0, SEEK_END);
}

std::optional<uint64_t> KernelEvidence::ReadKillCount() const {
  if (counter_path_.empty()) return std::nullopt;
  const std::string text = ReadText(counter_path_, kKernelFileBytes);
  for (std::string_view line : SplitParts(text, "\n")) {
    if (TakePrefix(&line, "oom_kill ")) return ParseWhole<uint64_t>(line);
  }
  return std::nullopt;
}

bool KernelEvidence::TookOomKill() {
  const std::optional<uint64_t> now = ReadKillCount();
  const bool rose = now.has_value() && kill_count_.has_value() && *now > *kill_count_;
  kill_count_ = now;
  return rose;
}

void KernelEvidence::ReadLog() {
  // Each read returns one record. EPIPE: records were overwritten; the next read continues.
  std::array<char, 8192> record;
  constexpr int kRecordsMax = 1000;
  for (int i = 0; log_.is_open() && i < kRecordsMax; ++i) {
    const ssize_t got = ::read(log_.get(), record.data(), record.size());
    if (got < 0 && errno == EPIPE) continue;
    if (got <= 0) break;
    recent_log_.append(record.data(), static_cast<size_t>(got));
    if (recent_log_.back() != '\n') recent_log_.push_back('\n');
  }
  if (recent_log_.size() > kRecentLogBytes) {
    recent_log_.erase(0, recent_log_.size() - kRecentLogBytes);
  }
}

std::string KernelEvidence::LineAbout(pid_t pid) {
  ReadLog();
  const std::string killed = Concat("Killed process ", pid, " ");
  const std::string faulted = Concat("[", pid, "]:");
  std::string found;
  std::string others;
  for (std::string_view line : SplitParts(recent_log_, "\n")) {
    if (line.find(killed) == line.npos && line.find(faulted) == line.npos) {
      others += Concat(line, "\n");
      continue;
    }
    const size_t text = line.find(';');
    found = std::string(text == std::string_view::npos ? line : line.substr(text + 1));
  }
  recent_log_ = std::move(others);
  return found;
}

std::string KernelEvidence::RecentLines(int64_t now_us) {
  constexpr int64_t kRecentUs = 120'000'000;
  ReadLog();
  std::string recent;
  for (const std::string_view line : SplitParts(recent_log_, "\n")) {
    // "priority,number,microseconds,flags;text"; lines of details begin with a space.
    const size_t text = line.find(';');
    const std::vector<std::string_view> parts = SplitParts(line.substr(0, text), ",");
    if (text == line.npos || parts.size() < 3 || line.front() == ' ') continue;
    const std::optional<int64_t> at_us = ParseWhole<int64_t>(parts[2]);
    if (at_us.has_value() && now_us - *at_us <= kRecentUs) {
      Append(&recent, line.substr(text + 1), "\n");
    }
  }
  return recent;
}

}  // namespace paceline::agent
