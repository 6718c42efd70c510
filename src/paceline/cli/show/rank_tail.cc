#include "paceline/cli/show/rank_tail.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/model/task.h"

namespace paceline::cli {
namespace {

constexpr size_t kChunkBytes = 64 << 10;
// Longest line, in bytes, that is shown in one piece.
constexpr size_t kLineBytesMax = 64 << 10;
// Two generations are followed: the newest, and the one before, whose ranks may still be ending.
constexpr size_t kFollowedMax = 2;

// The offset at which the unfinished last line begins; the file's end if there is none. If that
// line is too long, its beginning is skipped.
int64_t BeginOfLastLine(int fd) {
  const int64_t end = ::lseek(fd, 0, SEEK_END);
  std::array<char, 4096> buffer;
  const int64_t begin = std::max<int64_t>(end - static_cast<int64_t>(buffer.size()), 0);
  const ssize_t got = ::pread(fd, buffer.data(), static_cast<size_t>(end - begin), begin);
  if (got < 0 || got != end - begin) return end;
  const size_t at = std::string_view(buffer.data(), static_cast<size_t>(got)).rfind('\n');
  if (at != std::string_view::npos) return begin + static_cast<int64_t>(at) + 1;
  return begin == 0 ? 0 : end;
}

}  // namespace

std::optional<std::pair<uint32_t, bool>> ParseRankFile(std::string_view name) {
  const bool is_stderr = name.ends_with(".err");
  if (!is_stderr && !name.ends_with(".out")) return std::nullopt;
  const std::optional<Rank> rank = RankOfLogStem(name.substr(0, name.size() - 4));
  if (!rank.has_value()) return std::nullopt;
  return std::pair{rank->value(), is_stderr};
}

absl::StatusOr<std::unique_ptr<RankTail>> RankTail::Start(agent::Reactor& reactor,
                                                          const std::string& log_root,
                                                          const std::vector<std::string>& nodes,
                                                          bool from_start, Take take) {
  std::unique_ptr<RankTail> tail(new RankTail(reactor, std::move(take)));
  tail->notify_ = Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!tail->notify_.is_open()) return absl::ErrnoToStatus(errno, "inotify_init1");
  const absl::Status watched = reactor.Watch(tail->notify_.get(), EPOLLIN,
                                             [raw = tail.get()](uint32_t) { raw->OnNotify(); });
  if (!watched.ok()) return watched;
  for (const std::string& node : nodes) {
    const std::string path = Concat(log_root, "/", node);
    if (absl::Status made = MakeDirs(path, 0700); !made.ok()) return made;
    tail->WatchDirectory({path, node, std::nullopt}, from_start);
  }
  return tail;
}

RankTail::~RankTail() {
  if (notify_.is_open()) reactor_.Unwatch(notify_.get());
}

int RankTail::WatchDirectory(const Directory& directory, bool from_start) {
  // The directory is watched first and listed afterwards. An entry that appears in between is seen
  // twice and added once.
  const int watch = ::inotify_add_watch(notify_.get(), directory.path.c_str(),
                                        IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_ONLYDIR);
  if (watch < 0) return watch;
  directories_[watch] = directory;
  const std::unique_ptr<DIR, int (*)(DIR*)> open_dir(::opendir(directory.path.c_str()),
                                                     &::closedir);
  while (open_dir != nullptr) {
    const dirent* entry = ::readdir(open_dir.get());
    if (entry == nullptr) break;
    FoundEntry(directory, entry->d_name, from_start);
  }
  return watch;
}

void RankTail::FoundGeneration(const Directory& parent, uint64_t generation, bool from_start) {
  Generations& generations = generations_[parent.node];
  if (generation <= generations.dropped || generations.followed.contains(generation)) return;
  const int watch =
      WatchDirectory({Concat(parent.path, "/g", generation), parent.node, generation}, from_start);
  if (watch < 0) return;
  generations.followed[generation] = watch;
  while (generations.followed.size() > kFollowedMax) {
    const auto oldest = std::find_if(
        generations.followed.begin(), std::prev(generations.followed.end(), kFollowedMax),
        [&](const auto& one) { return !IsNewestOfATask(generations, one.first); });
    if (oldest == std::prev(generations.followed.end(), kFollowedMax)) return;
    generations.dropped = oldest->first;
    ::inotify_rm_watch(notify_.get(), oldest->second);
    Drop(oldest->second);
  }
}

bool RankTail::IsNewestOfATask(const Generations& generations, uint64_t generation) {
  return std::any_of(generations.newest_of_task.begin(), generations.newest_of_task.end(),
                     [&](const auto& one) { return one.second == generation; });
}

// Reads the folder's files to their ends and forgets them.
void RankTail::Drop(int watch) {
  const auto found = directories_.extract(watch);
  if (found.empty()) return;
  const Directory& directory = found.mapped();
  const std::string inside = directory.path + "/";
  for (auto entry = files_.lower_bound(inside);
       entry != files_.end() && entry->first.starts_with(inside); entry = files_.erase(entry)) {
    Read(&entry->second);
    if (!entry->second.partial.empty()) Emit(&entry->second);
  }
  if (directory.generation) generations_[directory.node].followed.erase(*directory.generation);
}

void RankTail::FoundEntry(const Directory& directory, const std::string& name, bool from_start) {
  if (!directory.generation) {
    std::string_view number = name;
    if (!TakePrefix(&number, "g")) return;
    const auto generation = ParseWhole<uint64_t>(number);
    if (generation) FoundGeneration(directory, *generation, from_start);
    return;
  }
  const auto rank = ParseRankFile(name);
  if (!rank.has_value()) return;
  if (IsTask(Rank(rank->first))) {
    uint64_t& newest = generations_[directory.node].newest_of_task[rank->first];
    newest = std::max(newest, *directory.generation);
  }
  const std::string path = Concat(directory.path, "/", name);
  auto [entry, is_new] = files_.try_emplace(path);
  File& file = entry->second;
  if (is_new) {
    file.fd = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    file.source = {directory.node, rank->first, rank->second, "", *directory.generation};
    if (file.fd.is_open() && !from_start) file.offset = BeginOfLastLine(file.fd.get());
  }
  Read(&file);
}

void RankTail::OnNotify() {
  alignas(inotify_event) std::array<char, 16384> buffer;
  while (true) {
    const ssize_t got = ::read(notify_.get(), buffer.data(), buffer.size());
    if (got <= 0) return;
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      if ((event->mask & IN_Q_OVERFLOW) != 0) {
        Drain();
        continue;
      }
      const auto found = directories_.find(event->wd);
      if (found == directories_.end()) continue;
      if ((event->mask & IN_IGNORED) != 0) {
        Drop(event->wd);
        continue;
      }
      // A copy, because a new directory changes the map.
      const Directory directory = found->second;
      if (event->len > 0) FoundEntry(directory, event->name, /*from_start=*/true);
    }
  }
}

void RankTail::Read(File* file) {
  if (!file->fd.is_open()) return;
  std::array<char, kChunkBytes> buffer;
  while (true) {
    const ssize_t got = ::pread(file->fd.get(), buffer.data(), buffer.size(), file->offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    file->offset += got;
    TakeText(file, {buffer.data(), static_cast<size_t>(got)});
  }
}

void RankTail::TakeText(File* file, std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    file->partial.append(text.substr(0, end));
    if (end == std::string_view::npos) {
      if (file->partial.size() >= kLineBytesMax) Emit(file);
      return;
    }
    Emit(file);
    text.remove_prefix(end + 1);
  }
}

void RankTail::Emit(File* file) {
  std::string line = std::exchange(file->partial, {});
  // Zeros are a hole that the agent punched before this part was read.
  std::erase(line, '\0');
  if (!line.empty() && line.back() == '\r') line.pop_back();
  // A progress bar rewrites its line by \r; only the last state is shown.
  const size_t rewritten = line.rfind('\r');
  if (rewritten != std::string::npos) line.erase(0, rewritten + 1);
  RankLine out = file->source;
  out.text = std::move(line);
  take_(std::move(out));
}

void RankTail::ReadAll() {
  // Adds entries that inotify has not reported yet.
  const std::map<int, Directory> known = directories_;
  for (const auto& [watch, directory] : known) {
    if (!directories_.contains(watch)) continue;  // the directory was just dropped for a newer one
    const std::unique_ptr<DIR, int (*)(DIR*)> open_dir(::opendir(directory.path.c_str()),
                                                       &::closedir);
    while (open_dir != nullptr) {
      const dirent* entry = ::readdir(open_dir.get());
      if (entry == nullptr) break;
      FoundEntry(directory, entry->d_name, /*from_start=*/true);
    }
  }
  for (auto& [path, file] : files_) Read(&file);
}

void RankTail::Drain() {
  ReadAll();
  for (auto& [path, file] : files_) {
    if (!file.partial.empty()) Emit(&file);
  }
}

}  // namespace paceline::cli
