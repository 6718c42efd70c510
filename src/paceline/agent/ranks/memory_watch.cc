#include "paceline/agent/ranks/memory_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/log.h"
#include "paceline/base/proc_bytes.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr size_t kProcFileBytes = 64 << 10;
// A use that differs from the told one by this part of the limit is news.
constexpr uint64_t kNewsPart = 500;

// Makes the folder of a group, and returns whether its memory can be limited. `parent`: the folder
// above it.
bool MakeLimited(const std::string& parent, const MemoryGroup& group) {
  const std::string limit =
      group.folder() + (group.is_v2() ? "/memory.max" : "/memory.limit_in_bytes");
  if (::mkdir(group.folder().c_str(), 0755) != 0 && errno != EEXIST) return false;
  if (::access(limit.c_str(), W_OK) == 0) return true;
  if (group.is_v2()) {
    // Fails if the parent has processes, unless it is the root of all groups.
    const Fd control(::open((parent + "/cgroup.subtree_control").c_str(), O_WRONLY | O_CLOEXEC));
    constexpr std::string_view kOn = "+memory";
    const bool is_on = control.is_open() && ::write(control.get(), kOn.data(), kOn.size()) ==
                                                static_cast<ssize_t>(kOn.size());
    if (is_on && ::access(limit.c_str(), W_OK) == 0) return true;
  }
  ::rmdir(group.folder().c_str());
  return false;
}

}  // namespace

MemoryWatch::MemoryWatch(Setup setup) : setup_(std::move(setup)) {
  if (setup_.limit == 0) return;
  group_ = MakeGroup();
  if (!group_.has_value()) {
    LogWarning("memory_group", {{"why", "no cgroup can be made here"}, {"limit", setup_.limit}});
    return;
  }
  // Ranks of an earlier agent may be there already, with a limit that was raised.
  if (group_->Limit().value_or(0) < setup_.limit && !group_->SetLimit(setup_.limit)) {
    LogWarning("memory_group", {{"why", std::strerror(errno)}, {"folder", group_->folder()}});
    ::rmdir(group_->folder().c_str());
    group_.reset();
    return;
  }
  kills_ = group_->KillCount();
  hits_ = group_->HitCount();
  LogInfo("memory_group", {{"folder", group_->folder()}, {"limit", setup_.limit}});
}

MemoryWatch::~MemoryWatch() {
  if (group_.has_value()) ::rmdir(group_->folder().c_str());
}

std::optional<MemoryGroup> MemoryWatch::MakeGroup() const {
  const std::optional<MemoryGroup> own = MemoryGroup::OfProcess(0, setup_.root);
  if (!own.has_value()) return std::nullopt;
  const std::string name = Concat("/paceline-", setup_.job_id, "-", setup_.node);
  const MemoryGroup child = own->At(own->folder() + name);
  if (MakeLimited(own->folder(), child)) return child;
  const std::string above = own->folder().substr(0, own->folder().rfind('/'));
  if (!own->is_v2() || !own->IsBelowTop() || own->Limit().has_value()) return std::nullopt;
  const MemoryGroup sibling = own->At(above + name);
  return MakeLimited(above, sibling) ? std::optional(sibling) : std::nullopt;
}

std::string MemoryWatch::DoorOfGroup() const {
  return group_.has_value() ? group_->folder() + "/cgroup.procs" : "";
}

void MemoryWatch::Raise(uint64_t limit) {
  if (limit == 0 || !group_.has_value() || group_->Limit().value_or(limit) >= limit) return;
  can_raise_ = group_->SetLimit(limit);
  look_at_ns_ = tell_at_ns_ = 0;
  LogInfo("memory_raised", {{"limit", limit}, {"done", can_raise_}});
}

uint64_t MemoryWatch::TakeLimitOfKill() {
  if (!group_.has_value()) return 0;
  const std::optional<uint64_t> kills = group_->KillCount();
  const std::optional<uint64_t> hits = group_->HitCount();
  const bool is_killed = kills.has_value() && kills_.has_value() && *kills > *kills_;
  // A host without memory kills processes, too, and no limit of theirs is to blame.
  const bool is_hit = hits.has_value() && hits_.has_value() && *hits > *hits_;
  kills_ = kills;
  hits_ = hits;
  return is_killed && is_hit ? group_->Limit().value_or(0) : 0;
}

std::optional<NodeMemory> MemoryWatch::Read(const std::vector<int32_t>& ranks) const {
  if (group_.has_value()) {
    const std::optional<uint64_t> used = group_->Used();
    const std::optional<uint64_t> limit = group_->Limit();
    if (!used.has_value() || !limit.has_value()) return std::nullopt;
    return NodeMemory{.used = *used,
                      .limit = *limit,
                      .bound = can_raise_ ? MemoryBound::kNode : MemoryBound::kGroup};
  }
  if (ranks.empty()) return std::nullopt;
  if (setup_.limit > 0) {
    NodeMemory memory{.used = 0, .limit = setup_.limit, .bound = MemoryBound::kTold};
    for (const int32_t pid : ranks) {
      const std::string text =
          ReadText(Concat(setup_.root, "proc/", pid, "/status"), kProcFileBytes);
      for (const std::string_view name : {"RssAnon:", "RssShmem:"}) {
        memory.used += ProcBytes(text, name).value_or(0);
      }
    }
    return memory;
  }
  const std::string text = ReadText(setup_.root + "proc/meminfo", kProcFileBytes);
  const std::optional<uint64_t> total = ProcBytes(text, "MemTotal:");
  const std::optional<uint64_t> left = ProcBytes(text, "MemAvailable:");
  const bool is_host_known = total.has_value() && left.has_value() && *total > *left;
  const std::optional<MemoryGroup> group = MemoryGroup::OfProcess(ranks.front(), setup_.root);
  const std::optional<MemoryGroup::Bound> bound =
      group.has_value() ? group->Tightest() : std::nullopt;
  if (bound.has_value() && (!is_host_known || bound->room() < *left)) {
    return NodeMemory{.used = bound->used, .limit = bound->limit, .bound = MemoryBound::kGroup};
  }
  if (!is_host_known) return std::nullopt;
  return NodeMemory{.used = *total - *left, .limit = *total, .bound = MemoryBound::kHost};
}

std::optional<NodeMemory> MemoryWatch::TakeNews(int64_t now_ns, const std::vector<int32_t>& ranks) {
  if (now_ns < look_at_ns_) return std::nullopt;
  look_at_ns_ = now_ns + kEveryNs;
  const std::optional<NodeMemory> memory = Read(ranks);
  if (!memory.has_value()) return std::nullopt;
  const uint64_t apart = std::max(memory->used, told_.used) - std::min(memory->used, told_.used);
  const bool is_other = memory->limit != told_.limit || memory->bound != told_.bound;
  if (!is_other && apart < memory->limit / kNewsPart && now_ns < tell_at_ns_) return std::nullopt;
  tell_at_ns_ = now_ns + kTellEveryNs;
  told_ = *memory;
  return memory;
}

}  // namespace paceline::agent
