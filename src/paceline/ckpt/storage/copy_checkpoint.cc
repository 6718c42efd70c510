#include "paceline/ckpt/storage/copy_checkpoint.h"

#include "paceline/base/text.h"
#include "paceline/ckpt/storage/image_files.h"
#include "paceline/ckpt/storage/storage.h"

namespace paceline::ckpt {
namespace {

constexpr int kTriesMax = 3;  // of a file that fails its check

// Copies one file; returns the bytes that were transferred.
Result<uint64_t> CopyFile(Store* from, Store* to, const std::string& key,
                          const ManifestFile& file) {
  auto there = to->Open(key, file.bytes);
  if (there.ok() && Verify(there->get(), file.hashes).ok()) return uint64_t{0};
  for (int i = 1;; ++i) {
    ASSIGN_OR_RETURN(auto source, from->Open(key, file.bytes));
    const Result<void> written = to->WriteImage(key, source.get(), file.hashes, nullptr);
    if (written.ok()) return file.bytes;
    // A transfer error is gone at the next try. If the file fails again, it is damaged in the
    // source.
    const bool may_differ = written.failure().kind == FailureKind::kDamaged && i < kTriesMax;
    if (!may_differ) return written.failure();
  }
}

}  // namespace

Result<Copied> CopyCheckpoint(Store* from, Store* to, const std::string& name,
                              const Manifest& manifest, const CopyWish& wish) {
  RETURN_IF_ERROR(to->MakeFolder(name));
  std::set<std::string> wanted;
  for (const ManifestRank& rank : manifest.ranks) {
    if (wish.part == StoredPart::kManifest) break;
    if (!wish.ranks.empty() && !wish.ranks.contains(rank.rank)) continue;
    wanted.insert(rank.notes);
    if (wish.part == StoredPart::kNotes) continue;
    wanted.insert(rank.file);
    if (!rank.frozen.empty()) wanted.insert(rank.frozen);
  }
  Copied copied;
  for (const std::string& one : wanted) {
    const ManifestFile* file = manifest.Find(one);
    ASSIGN_OR_RETURN(const uint64_t came, CopyFile(from, to, Concat(name, "/", one), *file));
    copied.bytes += came;
    copied.bytes_there += file->bytes - came;
  }
  RETURN_IF_ERROR(to->SyncNames(name));
  RETURN_IF_ERROR(
      Put(to, Concat(name, "/", kManifestName), ToText(manifest), Store::PutMode::kReplace));
  RETURN_IF_ERROR(to->SyncNames(name));
  RETURN_IF_ERROR(to->SyncNames(""));
  return copied;
}

}  // namespace paceline::ckpt
