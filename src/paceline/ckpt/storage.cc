#include "paceline/ckpt/storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "paceline/base/fd.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/chunk_copy.h"
#include "paceline/ckpt/drain.h"
#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/format/tiling.h"
#include "paceline/ckpt/restore.h"

namespace paceline::ckpt {
namespace {

constexpr char kLatest[] = "LATEST";
constexpr char kPartSuffix[] = ".part.json";
constexpr char kRemoving[] = ".removing-";
constexpr size_t kNamesMax = 1'000'000;

Failure Failed(std::string_view what, const std::string& path, int error) {
  const bool is_full = error == ENOSPC || error == EDQUOT;
  return {is_full           ? FailureKind::kFull
          : error == ENOENT ? FailureKind::kNotFound
                            : FailureKind::kSystem,
          Concat(what, " ", path, ": ", std::strerror(error)), error};
}

std::string Padded(uint32_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

std::string PartNameOf(uint32_t rank) { return "rank-" + Padded(rank) + kPartSuffix; }

// The names that this file gives to folders.
bool IsFolderName(std::string_view name) {
  const auto digits = [&] {
    const size_t count = std::min(name.find_first_not_of("0123456789"), name.size());
    name.remove_prefix(count);
    return count > 0;
  };
  return TakePrefix(&name, "step-") && digits() && TakePrefix(&name, "-g") && digits() &&
         name.empty();
}

Result<void> SyncDirectory(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return Failed("cannot open", path, errno);
  if (::fsync(fd.get()) != 0) return Failed("cannot sync", path, errno);
  return {};
}

Result<void> MakeDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return Failed("cannot make", path, errno);
}

// A whole small file under its name, or the old one; durable once its directory is synced.
Result<void> WriteWhole(const std::string& path, std::span<const std::byte> bytes) {
  const std::string making = path + ".new";
  {
    const Fd fd(
        ::open(making.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.is_open()) return Failed("cannot make", making, errno);
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t wrote = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return Failed("cannot write", making, wrote < 0 ? errno : EIO);
      done += static_cast<size_t>(wrote);
    }
    if (::fsync(fd.get()) != 0) return Failed("cannot sync", making, errno);
  }
  if (::rename(making.c_str(), path.c_str()) != 0) return Failed("cannot rename", making, errno);
  return {};
}

Result<void> WriteWhole(const std::string& path, std::string_view text) {
  return WriteWhole(path, std::as_bytes(std::span(text)));
}

Result<std::string> ReadSmall(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (!fd.is_open() || ::fstat(fd.get(), &found) != 0) return Failed("cannot open", path, errno);
  if (static_cast<uint64_t>(found.st_size) > kManifestBytesMax) {
    return Failure{FailureKind::kTooLarge, path + " is too large"};
  }
  std::string text(static_cast<size_t>(found.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("cannot read", path, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  DIR* const open = ::opendir(directory.c_str());
  if (open == nullptr) return names;
  while (const dirent* entry = ::readdir(open)) {
    if (names.size() == kNamesMax) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

// What an attempt that failed, or an older incarnation, may have left under that name.
Result<void> Clear(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return Failed("cannot remove", path, errno);
}

Result<Image> HeadOf(const std::string& folder, const ManifestFile& file) {
  ASSIGN_OR_RETURN(auto source, FileSource::Open(Concat(folder, "/", file.name), file.bytes));
  Result<Image> head = ReadHead(source.get(), file.hashes);
  if (!head.ok()) return Annotate(head.failure(), file.name);
  return head;
}

std::string LatestIn(const std::string& directory) {
  const Result<std::string> text = ReadSmall(Concat(directory, "/", kLatest));
  if (!text.ok()) return "";
  const std::string name(Trimmed(*text));
  return IsFolderName(name) ? name : "";
}

// The folder leaves its name first, so that nobody takes a half of it for a checkpoint.
void RemoveFolder(const std::string& directory, const std::string& name) {
  const std::string old = Concat(directory, "/", name);
  const std::string going =
      name.starts_with(kRemoving) ? old : Concat(directory, "/", kRemoving, name);
  if (old != going && ::rename(old.c_str(), going.c_str()) != 0) return;
  for (const std::string& file : NamesIn(going)) {
    const bool is_ours = file == kManifestName || file.starts_with("shard-") ||
                         file.starts_with("rank-") || file == Concat(kManifestName, ".new");
    if (is_ours) ::unlink(Concat(going, "/", file).c_str());
  }
  ::rmdir(going.c_str());
}

int64_t ChangedNs(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return 0;
  return found.st_mtim.tv_sec * int64_t{1'000'000'000} + found.st_mtim.tv_nsec;
}

}  // namespace

std::string FileNameOf(uint32_t rank) { return "shard-" + Padded(rank) + ".safetensors"; }
std::string NotesNameOf(uint32_t rank) { return "rank-" + Padded(rank) + ".json"; }

Result<void> WriteShard(const ShardPlace& place, const ShardBytes& bytes) {
  const std::string folder = Concat(place.directory, "/", place.name);
  RETURN_IF_ERROR(MakeDirectory(folder));
  if (::access(Concat(folder, "/", kManifestName).c_str(), F_OK) == 0) {
    return Failure{FailureKind::kExists, place.name + " is complete"};
  }
  Manifest part{.job_id = place.job_id,
                .generation = place.saved.generation,
                .step = place.saved.step,
                .files = {},
                .ranks = {}};
  if (place.file_of == place.rank) {
    const std::string name = FileNameOf(place.rank);
    const std::string path = Concat(folder, "/", name);
    RETURN_IF_ERROR(Clear(path));
    RETURN_IF_ERROR(Drain(bytes.file, bytes.file_hashes, path, {}));
    part.files.push_back({name, bytes.file.size(), bytes.file_hashes});
  }
  MemorySource notes(bytes.notes);
  RETURN_IF_ERROR(Verify(&notes, bytes.notes_hashes));
  const std::string notes_name = NotesNameOf(place.rank);
  RETURN_IF_ERROR(WriteWhole(Concat(folder, "/", notes_name), bytes.notes));
  part.files.push_back({notes_name, bytes.notes.size(), bytes.notes_hashes});
  part.ranks.push_back({place.rank, FileNameOf(place.file_of), notes_name});
  RETURN_IF_ERROR(WriteWhole(Concat(folder, "/", PartNameOf(place.rank)), ToText(part)));
  return SyncDirectory(folder);
}

Result<uint64_t> Commit(const CommitPlace& place) {
  const std::string folder = Concat(place.directory, "/", place.order.name);
  const std::string path = Concat(folder, "/", kManifestName);
  if (Result<Manifest> done = ReadManifest(folder); done.ok()) {
    RETURN_IF_ERROR(WriteWhole(Concat(place.directory, "/", kLatest), place.order.name + "\n"));
    RETURN_IF_ERROR(SyncDirectory(place.directory));
    return done->bytes();
  }
  Manifest whole{.job_id = place.job_id,
                 .generation = place.order.saved.generation,
                 .step = place.order.saved.step,
                 .world_size = place.order.world_size,
                 .files = {},
                 .ranks = {}};
  std::vector<TensorBox> boxes;
  for (const PersistOrder::Shard& shard : place.order.shards) {
    const std::string name = PartNameOf(shard.rank.value());
    ASSIGN_OR_RETURN(const std::string text, ReadSmall(Concat(folder, "/", name)));
    Result<Manifest> part = ParseManifest(text);
    if (!part.ok()) return Annotate(part.failure(), name);
    const bool is_of_it = part->generation == whole.generation && part->step == whole.step &&
                          part->ranks.size() == 1 && part->ranks[0].rank == shard.rank.value() &&
                          part->ranks[0].file == FileNameOf(shard.file_of.value());
    if (!is_of_it) return Failure{FailureKind::kInvalid, name + " is of another save"};
    for (ManifestFile& file : part->files) {
      if (file.name == FileNameOf(shard.rank.value())) {
        ASSIGN_OR_RETURN(Image head, HeadOf(folder, file));
        std::move(head.boxes.begin(), head.boxes.end(), std::back_inserter(boxes));
      }
      whole.files.push_back(std::move(file));
    }
    whole.ranks.push_back(part->ranks[0]);
  }
  RETURN_IF_ERROR(CheckTiling(std::move(boxes)));
  const std::string text = ToText(whole);
  // What cannot be read back must not become visible.
  RETURN_IF_ERROR(ParseManifest(text));
  RETURN_IF_ERROR(WriteWhole(path, text));
  RETURN_IF_ERROR(SyncDirectory(folder));
  RETURN_IF_ERROR(SyncDirectory(place.directory));
  RETURN_IF_ERROR(WriteWhole(Concat(place.directory, "/", kLatest), place.order.name + "\n"));
  RETURN_IF_ERROR(SyncDirectory(place.directory));
  for (const PersistOrder::Shard& shard : place.order.shards) {
    ::unlink(Concat(folder, "/", PartNameOf(shard.rank.value())).c_str());
  }
  return whole.bytes();
}

Result<Manifest> ReadManifest(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string text, ReadSmall(Concat(folder, "/", kManifestName)));
  ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(text));
  if (manifest.world_size == 0) return Failure{FailureKind::kInvalid, "the manifest is of a part"};
  return manifest;
}

std::vector<Listed> List(const std::string& directory) {
  std::vector<Listed> found;
  for (const std::string& name : NamesIn(directory)) {
    if (!IsFolderName(name)) continue;
    Result<Manifest> manifest = ReadManifest(Concat(directory, "/", name));
    if (manifest.ok()) found.push_back({name, *std::move(manifest)});
  }
  const std::string latest = LatestIn(directory);
  std::sort(found.begin(), found.end(), [&](const Listed& a, const Listed& b) {
    if ((a.name == latest) != (b.name == latest)) return a.name == latest;
    if (a.manifest.step != b.manifest.step) return a.manifest.step > b.manifest.step;
    return a.manifest.generation > b.manifest.generation;
  });
  return found;
}

std::optional<StoredCheckpoint> Newest(const std::string& directory,
                                       const std::set<std::string>& except) {
  const auto stored = [](const std::string& name, const Manifest& manifest) {
    return StoredCheckpoint{.name = name,
                            .job_id = manifest.job_id,
                            .saved = {manifest.generation, manifest.step},
                            .world_size = manifest.world_size};
  };
  const std::string latest = LatestIn(directory);
  if (!latest.empty() && !except.contains(latest)) {
    const Result<Manifest> manifest = ReadManifest(Concat(directory, "/", latest));
    if (manifest.ok()) return stored(latest, *manifest);
  }
  for (const Listed& one : List(directory)) {
    if (!except.contains(one.name)) return stored(one.name, one.manifest);
  }
  return std::nullopt;
}

void Prune(const std::string& directory, uint32_t keep) {
  const std::vector<Listed> all = List(directory);
  if (all.empty()) return;
  const int64_t newest = ChangedNs(Concat(directory, "/", all.front().name, "/", kManifestName));
  std::set<std::string> whole;
  for (const Listed& one : all) whole.insert(one.name);
  for (size_t i = std::max(keep, 1u); i < all.size(); ++i) RemoveFolder(directory, all[i].name);
  for (const std::string& name : NamesIn(directory)) {
    const std::string path = Concat(directory, "/", name);
    const bool is_unfinished = IsFolderName(name) && !whole.contains(name) &&
                               ::access(Concat(path, "/", kManifestName).c_str(), F_OK) != 0;
    if (name.starts_with(kRemoving) || (is_unfinished && ChangedNs(path) < newest)) {
      RemoveFolder(directory, name);
    }
  }
}

std::vector<std::string> VerifyCheckpoint(const std::string& folder) {
  const Result<Manifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) return {manifest.failure().message};
  std::vector<std::string> wrong;
  std::vector<TensorBox> boxes;
  for (const ManifestFile& file : manifest->files) {
    auto source = FileSource::Open(Concat(folder, "/", file.name), file.bytes);
    if (!source.ok()) {
      wrong.push_back(source.failure().message);
      continue;
    }
    if (const Result<void> holds = Verify(source->get(), file.hashes); !holds.ok()) {
      wrong.push_back(Concat(file.name, ": ", holds.failure().message));
      continue;
    }
    if (!file.name.starts_with("shard-")) continue;
    Result<Image> head = HeadOf(folder, file);
    if (!head.ok()) {
      wrong.push_back(head.failure().message);
      continue;
    }
    std::move(head->boxes.begin(), head->boxes.end(), std::back_inserter(boxes));
  }
  if (!wrong.empty()) return wrong;
  if (const Result<void> tiled = CheckTiling(std::move(boxes)); !tiled.ok()) {
    wrong.push_back(tiled.failure().message);
  }
  return wrong;
}

Result<void> Remove(const std::string& directory, const std::string& name) {
  const std::string folder = Concat(directory, "/", name);
  if (!IsFolderName(name) || ::access(folder.c_str(), F_OK) != 0) {
    return Failure{FailureKind::kNotFound, Concat("there is no checkpoint ", name)};
  }
  RemoveFolder(directory, name);
  const std::vector<Listed> left = List(directory);
  const std::string latest = Concat(directory, "/", kLatest);
  if (left.empty()) {
    ::unlink(latest.c_str());
  } else if (LatestIn(directory) != left.front().name) {
    RETURN_IF_ERROR(WriteWhole(latest, left.front().name + "\n"));
  }
  return SyncDirectory(directory);
}

}  // namespace paceline::ckpt
