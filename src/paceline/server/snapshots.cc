#include "paceline/server/snapshots.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/ps/frame/table_frame.h"
#include "paceline/ps/partition_image.h"
#include "paceline/ps/snapshot.h"

namespace paceline::server {
namespace {

constexpr std::string_view kEnding = ".tables";
constexpr size_t kKept = 2;
constexpr uint64_t kNumberMax = 999'999'999'999;  // twelve digits, as NextPath writes them
constexpr uint64_t kIndexBytesMax = 64 << 20;

struct Found {
  uint64_t number = 0;
  std::string path;
};

absl::Status FileError(std::string_view what, const std::string& path) {
  return absl::UnavailableError(Concat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

// The names in a folder; none if it is not there.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const open = ::opendir(folder.c_str());
  if (open == nullptr) {
    if (errno == ENOENT || errno == ENOTDIR) return names;
    return FileError("read", folder);
  }
  while (const dirent* const entry = ::readdir(open)) names.emplace_back(entry->d_name);
  ::closedir(open);
  return names;
}

std::optional<uint64_t> NumberOf(std::string_view name) {
  if (!name.ends_with(kEnding)) return std::nullopt;
  name.remove_suffix(kEnding.size());
  const size_t first = name.find_first_not_of('0');
  if (first == std::string_view::npos) return std::nullopt;
  const auto number = ParseWhole<uint64_t>(name.substr(first));
  return number && *number < kNumberMax ? number : std::nullopt;
}

absl::StatusOr<std::vector<Found>> FilesIn(const std::string& folder) {
  std::vector<Found> files;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder));
  for (const std::string& name : names) {
    const auto number = NumberOf(name);
    if (number) files.push_back({*number, Concat(folder, "/", name)});
  }
  return files;
}

// The newest first.
absl::StatusOr<std::vector<Found>> AllFiles(const std::string& directory) {
  std::vector<Found> files;
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, NamesIn(directory));
  for (const std::string& folder : folders) {
    if (!folder.starts_with("ps-")) continue;
    ASSIGN_OR_RETURN(std::vector<Found> some, FilesIn(Concat(directory, "/", folder)));
    files.insert(files.end(), some.begin(), some.end());
  }
  std::sort(files.begin(), files.end(),
            [](const Found& a, const Found& b) { return a.number > b.number; });
  return files;
}

std::optional<std::string> ReadAt(int fd, uint64_t offset, uint64_t size) {
  std::string bytes(size, '\0');
  uint64_t have = 0;
  while (have < size) {
    const ssize_t got =
        ::pread(fd, bytes.data() + have, size - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    have += static_cast<uint64_t>(got);
  }
  return bytes;
}

// A file of a snapshot with its index; or why it cannot be used.
struct OpenFile {
  Fd fd;
  ps::SnapshotIndex index;
  uint64_t job = 0;
};
Result<OpenFile> OpenSnapshot(const std::string& path) {
  OpenFile file{.fd = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)),
                .index = {},
                .job = 0};
  struct stat facts {};
  if (!file.fd.is_open() || ::fstat(file.fd.get(), &facts) != 0) {
    return Failure{FailureKind::kSystem, std::strerror(errno), errno};
  }
  if (!S_ISREG(facts.st_mode)) return Failure{FailureKind::kDamaged, "it is no file"};
  const auto size = static_cast<uint64_t>(facts.st_size);
  const Failure short_file{FailureKind::kDamaged, "the file is cut"};
  if (size < ps::kSnapshotTrailerBytes) return short_file;
  const auto trailer =
      ReadAt(file.fd.get(), size - ps::kSnapshotTrailerBytes, ps::kSnapshotTrailerBytes);
  if (!trailer) return short_file;
  ASSIGN_OR_RETURN(const ps::IndexPlace place, ps::ReadTrailer(*trailer, size));
  if (place.size > kIndexBytesMax) {
    return Failure{FailureKind::kDamaged, "its index has more than 64 MiB"};
  }
  const auto index = ReadAt(file.fd.get(), place.offset, place.size);
  if (!index) return short_file;
  ASSIGN_OR_RETURN(file.index, ps::ReadIndex(*index, place));
  file.job = place.job;
  return file;
}

bool HasRows(const ps::SnapshotIndex& index) {
  return std::any_of(index.partitions.begin(), index.partitions.end(),
                     [](const auto& one) { return one.second.rows > 0; });
}

}  // namespace

ps::PartitionBits ShareOf(const TableRouting& routing, uint32_t server) {
  ps::PartitionBits share;
  for (uint32_t i = 0; i < ps::kPartitions; ++i) share[i] = routing.Of(i) == server;
  return share;
}

IntervalSet Common(const IntervalSet& one, const IntervalSet& other) {
  IntervalSet common;
  const std::vector<OrdinalRange> left = one.Ranges();
  const std::vector<OrdinalRange> right = other.Ranges();
  for (size_t i = 0, j = 0; i < left.size() && j < right.size();) {
    const OrdinalRange both{std::max(left[i].begin, right[j].begin),
                            std::min(left[i].end, right[j].end)};
    if (both.begin < both.end) common.Add(both);
    left[i].end < right[j].end ? ++i : ++j;
  }
  return common;
}

ps::AppliedSet Common(const ps::AppliedSet& one, const ps::AppliedSet& other) {
  ps::AppliedSet common;
  for (const auto& [set, applied] : one) {
    const auto also = other.find(set);
    if (also != other.end()) common[set] = Common(applied, also->second);
  }
  return common;
}

std::string HaveText(const ps::AppliedSet& applied, uint64_t job) {
  constexpr size_t kRangesOfLine = 500;
  std::string text;
  for (const auto& [set, ordinals] : applied) {
    const std::vector<OrdinalRange> ranges = ordinals.Ranges();
    for (size_t begin = 0; begin < ranges.size(); begin += kRangesOfLine) {
      const size_t end = std::min(begin + kRangesOfLine, ranges.size());
      const std::vector<OrdinalRange> some(ranges.begin() + static_cast<ptrdiff_t>(begin),
                                           ranges.begin() + static_cast<ptrdiff_t>(end));
      Append(&text, ps::SetOfJob(job, set), " ", RangesToText(some), "\n");
    }
  }
  return text;
}

std::string Snapshots::Folder() const {
  return Concat(setup_.directory, "/ps-", setup_.server, "-of-", setup_.servers);
}

absl::StatusOr<Snapshots::Loaded> Snapshots::Load(const ps::PartitionBits& own,
                                                  ps::Holding* holding) {
  holding->Keep(own);
  Loaded loaded;
  ASSIGN_OR_RETURN(const std::vector<Found> files, AllFiles(setup_.directory));
  if (!files.empty()) next_ = files.front().number + 1;
  ps::PartitionBits missing = own;
  std::optional<ps::AppliedSet> common;
  bool is_from_before = false;  // another job has left rows
  const auto note = [&loaded](const Found& file, const std::string& why) {
    loaded.notes.push_back(
        Concat(file.path, " is damaged, older snapshots are used where there are any: ", why));
  };
  for (const Found& file : files) {
    if (missing.none()) break;
    Result<OpenFile> open = OpenSnapshot(file.path);
    if (!open.ok()) {
      note(file, open.failure().message);
      continue;
    }
    is_from_before |= (setup_.job == 0 || open->job != setup_.job) && HasRows(open->index);
    // A table without a row is open, too, as it was.
    for (const ps::TableSpec& table : open->index.tables) {
      if (const auto opened = holding->Open(table); !opened.ok()) {
        note(file, opened.failure().message);
      }
    }
    bool is_used = false;
    for (const auto& [partition, place] : open->index.partitions) {
      if (!missing.test(partition)) continue;
      const auto bytes = ReadAt(open->fd.get(), place.offset, place.size);
      const Result<ps::PartitionImage> image =
          bytes ? ps::ReadImage(*bytes)
                : Result<ps::PartitionImage>(Failure{FailureKind::kDamaged, "the file is cut"});
      if (image.ok() && image->partition != partition) {
        note(file, "its index names another partition than the image");
        break;
      }
      const auto done = image.ok() ? holding->LoadPartition(*bytes) : image.failure();
      if (!done.ok()) {
        note(file, done.failure().message);
        break;
      }
      missing.reset(partition);
      is_used = true;
      loaded.rows += place.rows;
      if (!common) {
        common = image->applied;
      } else if (*common != image->applied) {
        common = Common(*common, image->applied);
      }
    }
    if (is_used) loaded.from += Concat(loaded.from.empty() ? "" : ",", file.path);
  }
  if (is_from_before && missing.any() && loaded.notes.empty()) {
    loaded.notes.push_back(Concat("no snapshot in ", setup_.directory, " has ", missing.count(),
                                  " of the ", own.count(),
                                  " partitions, though an earlier run has left rows in it"));
  }
  if (missing.none() && common) loaded.applied = *std::move(common);
  return loaded;
}

std::string Snapshots::NextPath() {
  std::string number = Concat(next_++);
  number.insert(0, 12 - std::min<size_t>(12, number.size()), '0');
  return Concat(Folder(), "/", number, kEnding);
}

absl::Status Snapshots::Write(const ps::PartitionBits& own, const ps::Holding& holding,
                              const std::string& path) const {
  RETURN_IF_ERROR(MakeDirs(Folder(), 0700));
  const std::string unfinished = Concat(path, ".new");
  const Fd fd(
      ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) return FileError("write", unfinished);
  const auto fail = [&unfinished] {
    const absl::Status why = FileError("write", unfinished);
    ::unlink(unfinished.c_str());
    return why;
  };
  const auto put = [&fd](std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::write(fd.get(), bytes.data(), bytes.size());
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  };
  ps::SnapshotWriter writer;
  for (uint32_t partition = 0; partition < ps::kPartitions; ++partition) {
    if (own.test(partition) && !put(writer.Add(holding, partition))) return fail();
  }
  if (!put(writer.Finish(holding, setup_.job)) || ::fsync(fd.get()) != 0) return fail();
  if (::rename(unfinished.c_str(), path.c_str()) != 0) return fail();
  const Fd folder(::open(Folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open() || ::fsync(folder.get()) != 0) return FileError("sync", Folder());
  return absl::OkStatus();
}

void Snapshots::Prune() const {
  absl::StatusOr<std::vector<Found>> files = FilesIn(Folder());
  if (!files.ok() || files->size() <= kKept) return;
  std::sort(files->begin(), files->end(),
            [](const Found& a, const Found& b) { return a.number > b.number; });
  const absl::StatusOr<std::vector<Found>> all = AllFiles(setup_.directory);
  if (!all.ok()) return;
  // In how many newer files a partition is, up to kKept.
  std::vector<size_t> newer(ps::kPartitions, 0);
  for (const Found& file : *all) {
    const Result<OpenFile> open = OpenSnapshot(file.path);
    if (!open.ok()) continue;
    const auto& parts = open->index.partitions;
    const bool is_covered = std::all_of(parts.begin(), parts.end(),
                                        [&](const auto& one) { return newer[one.first] >= kKept; });
    const bool is_own = std::any_of(files->begin() + kKept, files->end(),
                                    [&](const Found& one) { return one.path == file.path; });
    if (is_own && is_covered) ::unlink(file.path.c_str());
    for (const auto& [partition, place] : parts) ++newer[partition];
  }
}

}  // namespace paceline::server
