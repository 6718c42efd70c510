#include "paceline/ckpt/store/posix.h"

#include <fcntl.h>
#include <sys/random.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/ckpt/image/drain.h"

namespace paceline::ckpt {
namespace {

constexpr StoreTraits kPosixTraits{.name = "posix", .has_paths = true, .has_folders = true};

// A temporary name that no process on any host shares, because two may put the same key at once.
std::string TemporaryOf(const std::string& path) {
  uint64_t chance = 0;
  if (::getrandom(&chance, sizeof(chance), 0) != sizeof(chance)) return path + ".new-0";
  return Concat(path, ".new-", chance);
}

class PosixStore final : public Store {
 public:
  PosixStore(std::string directory, Disk* disk) : root_(std::move(directory)), disk_(disk) {}

  const StoreTraits& traits() const override { return kPosixTraits; }
  const std::string& root() const override { return root_; }

  Result<void> MakeFolder(const std::string& folder) override {
    RETURN_IF_ERROR(CheckMounted());
    const std::string path = PathOf(folder);
    const int made = disk_->MakeFolder(path);
    if (made < 0 && made != -EEXIST) return DiskFailure("cannot make", path, -made);
    return {};
  }

  Result<void> WriteImage(const std::string& key, ChunkSource* image,
                          std::span<const uint64_t> hashes, Pacer* pacer) override {
    const std::string path = PathOf(key);
    const std::string making = TemporaryOf(path);
    const Result<DrainReport> drained =
        Drain(image, hashes, making, {.pacer = pacer, .disk = disk_});
    if (!drained.ok()) return drained.failure();
    Result<void> replaced = Replace(making, path);
    if (!replaced.ok()) disk_->Unlink(making);
    return replaced;
  }

  Result<void> Link(const std::string& from, const std::string& to) override {
    const std::string path = PathOf(to);
    const std::string making = TemporaryOf(path);
    const int linked = disk_->Link(PathOf(from), making);
    if (linked == 0) {
      const Result<void> replaced = Replace(making, path);
      // rename(2) between two names of one file does nothing, so both names stay.
      disk_->Unlink(making);
      return replaced;
    }
    // No hard links here, or too many of this file.
    const bool cannot = linked == -EPERM || linked == -EOPNOTSUPP || linked == -ENOSYS ||
                        linked == -EMLINK || linked == -EXDEV;
    if (cannot) return Failure{FailureKind::kNotHere, Concat("no links to ", PathOf(from))};
    return DiskFailure("cannot link", PathOf(from), -linked);
  }

  Result<void> Put(const std::string& key, std::span<const std::byte> bytes,
                   PutMode mode) override {
    // The file that identifies the directory.
    const bool is_of_root = key.starts_with('.');
    if (is_of_root) RETURN_IF_ERROR(CheckMounted());
    const std::string path = PathOf(key);
    const std::string making = TemporaryOf(path);
    Result<void> made = WriteWhole(making, bytes);
    if (made.ok()) made = mode == PutMode::kNew ? Name(making, path) : Replace(making, path);
    if (!made.ok()) disk_->Unlink(making);
    DiskEntry root;
    const bool tells = is_of_root || key == kLatestName;
    if (made.ok() && tells && disk_->Stat(root_, &root) == 0) device_ = root.device;
    return made;
  }

  // If two processes rename the file away, only one succeeds. If its content is not the expected
  // one, it is put back.
  Result<void> Exchange(const std::string& key, const std::string& from,
                        std::span<const std::byte> bytes) override {
    const std::string path = PathOf(key);
    const std::string taken = TemporaryOf(path);
    const int renamed = disk_->Rename(path, taken);
    if (renamed < 0) return DiskFailure("cannot rename", path, -renamed);
    const Result<std::string> found = Get(taken.substr(root_.size() + 1), from.size());
    if (found.ok() && *found == from) {
      disk_->Unlink(taken);
      return Put(key, bytes, PutMode::kNew);
    }
    const Result<void> back = Name(taken, path);
    if (!back.ok()) disk_->Unlink(taken);
    return Failure{FailureKind::kFenced, path + " is another one by now"};
  }

  Result<bool> Has(const std::string& key) override {
    DiskEntry found;
    const int status = disk_->Stat(PathOf(key), &found);
    if (status < 0 && status != -ENOENT) return DiskFailure("cannot look at", PathOf(key), -status);
    return status == 0;
  }

  Result<std::string> Get(const std::string& key, uint64_t bytes_max) override {
    const std::string path = PathOf(key);
    RETURN_IF_ERROR(CheckReadable(path));
    const DiskFile file(disk_, disk_->Open(path, O_RDONLY | O_NONBLOCK));
    if (!file.is_open()) return DiskFailure("cannot open", path, file.error());
    const int64_t size = disk_->SizeOf(file.fd());
    if (size < 0) return DiskFailure("cannot open", path, static_cast<int>(-size));
    if (static_cast<uint64_t>(size) > bytes_max) {
      return Failure{FailureKind::kTooLarge, path + " is too large"};
    }
    std::string text(static_cast<size_t>(size), '\0');
    size_t done = 0;
    while (done < text.size()) {
      const int64_t got = disk_->Read(file.fd(), text.data() + done, text.size() - done, done);
      if (got < 0) return DiskFailure("cannot read", path, static_cast<int>(-got));
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    text.resize(done);
    return text;
  }

  Result<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                          uint64_t bytes_max) override {
    std::vector<std::string> texts;
    texts.reserve(keys.size());
    for (const std::string& key : keys) {
      ASSIGN_OR_RETURN(std::string text, Get(key, bytes_max));
      texts.push_back(std::move(text));
    }
    return texts;
  }

  Result<std::unique_ptr<ChunkSource>> Open(const std::string& key, uint64_t bytes) override {
    ASSIGN_OR_RETURN(std::unique_ptr<ChunkSource> source,
                     FileSource::Open(PathOf(key), bytes, disk_));
    return source;
  }

  Result<std::vector<StoreEntry>> List(const std::string& folder) override {
    std::vector<DiskEntry> found;
    const std::string path = PathOf(folder);
    const int listed = disk_->List(path, &found);
    if (listed < 0 && listed != -ENOENT) return DiskFailure("cannot list", path, -listed);
    std::vector<StoreEntry> entries;
    entries.reserve(found.size());
    for (DiskEntry& one : found) {
      entries.push_back(
          {std::move(one.name), one.is_folder, one.bytes, one.changed_ns, one.is_link});
    }
    return entries;
  }

  Result<void> SyncNames(const std::string& folder) override {
    const std::string path = PathOf(folder);
    const DiskFile file(disk_, disk_->Open(path, O_RDONLY | O_DIRECTORY));
    if (!file.is_open()) return DiskFailure("cannot open", path, file.error());
    const int synced = disk_->Sync(file.fd());
    if (synced < 0) return DiskFailure("cannot sync", path, -synced);
    return {};
  }

  Result<void> Remove(const std::string& key) override {
    const std::string path = PathOf(key);
    const int removed = disk_->Unlink(path);
    if (removed < 0 && removed != -ENOENT) return DiskFailure("cannot remove", path, -removed);
    return {};
  }

  Result<void> RenameFolder(const std::string& from, const std::string& to) override {
    const int renamed = disk_->Rename(PathOf(from), PathOf(to));
    if (renamed < 0) return DiskFailure("cannot rename", PathOf(from), -renamed);
    return {};
  }

  Result<void> RemoveFolder(const std::string& folder) override {
    const std::string path = PathOf(folder);
    const int removed = disk_->RemoveFolder(path);
    if (removed < 0 && removed != -ENOENT) return DiskFailure("cannot remove", path, -removed);
    return {};
  }

 private:
  // After an unmount the empty mount point often remains, on the disk below it. Writes would fill
  // that disk and be hidden after the next mount. So if a directory had checkpoints and is now
  // empty, it must be on the same file system as before.
  Result<void> CheckMounted() {
    DiskEntry root;
    DiskEntry latest;
    if (disk_->Stat(root_, &root) < 0) return {};  // the next call reports the error
    if (disk_->Stat(PathOf(kLatestName), &latest) == 0) {
      device_ = root.device;
    } else if (device_.has_value() && *device_ != root.device) {
      return Failure{FailureKind::kBusy,
                     Concat(root_,
                            " has no checkpoints any more and is on another file system "
                            "than before: is it not mounted?")};
    }
    return {};
  }

  std::string PathOf(const std::string& key) const {
    return key.empty() ? root_ : Concat(root_, "/", key);
  }

  Result<void> WriteWhole(const std::string& path, std::span<const std::byte> bytes) {
    const DiskFile file(disk_, disk_->Open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW));
    if (!file.is_open()) return DiskFailure("cannot make", path, file.error());
    size_t done = 0;
    while (done < bytes.size()) {
      const int64_t wrote = disk_->Write(file.fd(), bytes.data() + done, bytes.size() - done, done);
      if (wrote <= 0) {
        return DiskFailure("cannot write", path, wrote < 0 ? static_cast<int>(-wrote) : EIO);
      }
      done += static_cast<size_t>(wrote);
    }
    const int synced = disk_->Sync(file.fd());
    if (synced < 0) return DiskFailure("cannot sync", path, -synced);
    return {};
  }

  Result<void> Replace(const std::string& making, const std::string& path) {
    const int renamed = disk_->Rename(making, path);
    if (renamed < 0) return DiskFailure("cannot rename", making, -renamed);
    return {};
  }

  // First a hard link to the new name, which fails if the name exists; then the old name is
  // removed.
  Result<void> Name(const std::string& making, const std::string& path) {
    const int linked = disk_->Link(making, path);
    if (linked == -EEXIST) return DiskFailure("cannot make", path, EEXIST);
    // Without hard links, another process may take the name between the check and the rename.
    if (linked == -EPERM || linked == -EOPNOTSUPP || linked == -ENOSYS) {
      DiskEntry found;
      if (disk_->Stat(path, &found) == 0) return DiskFailure("cannot make", path, EEXIST);
      return Replace(making, path);
    }
    if (linked < 0) return DiskFailure("cannot name", path, -linked);
    disk_->Unlink(making);
    return {};
  }

  const std::string root_;
  Disk* const disk_;
  std::optional<uint64_t> device_;  // of the file system on which checkpoints were seen
};

}  // namespace

std::unique_ptr<Store> MakePosixStore(std::string directory, Disk* disk) {
  return std::make_unique<PosixStore>(std::move(directory), disk);
}

}  // namespace paceline::ckpt
