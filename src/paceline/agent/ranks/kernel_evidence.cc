#include "paceline/agent/ranks/kernel_evidence.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr size_t kRecentLogBytes = 64 << 10;
// Ranks of one node are in one group, or in few: a new starter may have another one.
constexpr size_t kGroupsMax = 8;

}  // namespace

KernelEvidence::KernelEvidence(std::string root)
    : root_(std::move(root)),
      log_(::open(Concat(root_, "dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  Watch(0);
  if (log_.is_open()) ::lseek(log_.get(), 0, SEEK_END);
}

void KernelEvidence::Watch(pid_t pid) {
  const std::optional<MemoryGroup> group = MemoryGroup::OfProcess(pid, root_);
  if (group.has_value()) Watch(*group);
}

void KernelEvidence::Watch(const MemoryGroup& group) {
  const auto is_it = [&](const Watched& one) { return one.group.folder() == group.folder(); };
  if (std::any_of(groups_.begin(), groups_.end(), is_it)) return;
  if (groups_.size() == kGroupsMax) groups_.erase(groups_.begin());
  groups_.push_back({group, group.KillCount()});
}

bool KernelEvidence::TookOomKill() {
  bool rose = false;
  for (Watched& one : groups_) {
    const std::optional<uint64_t> now = one.group.KillCount();
    rose = rose || (now.has_value() && one.kills.has_value() && *now > *one.kills);
    one.kills = now;
  }
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
