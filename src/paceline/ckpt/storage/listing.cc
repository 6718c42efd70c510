#include "paceline/ckpt/storage/listing.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/format/tiling.h"
#include "paceline/ckpt/image/restore.h"
#include "paceline/ckpt/storage/notes_file.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::ckpt {
namespace {

constexpr uint64_t kLatestBytesMax = 4096;

Result<Image> HeadOf(Store* store, const std::string& folder, const ManifestFile& file) {
  ASSIGN_OR_RETURN(auto source, store->Open(KeyOf(folder, file.name), file.bytes));
  Result<Image> head = ReadHead(source.get(), file.hashes);
  if (!head.ok()) return Annotate(head.failure(), file.name);
  return head;
}

bool IsNotes(const Manifest& manifest, const std::string& file) {
  return std::any_of(manifest.ranks.begin(), manifest.ranks.end(),
                     [&](const ManifestRank& rank) { return rank.notes == file; });
}

// Examines a folder; `latest` is the name in LATEST. Fails if the store does not answer.
Result<Folder> FolderOf(Store* store, const StoreEntry& entry, const std::string& latest) {
  const std::string& name = entry.name;
  Folder folder{.name = name, .saved = {}, .why = "", .manifest = {}};
  Result<Manifest> manifest = ReadManifest(store, name);
  if (manifest.ok()) {
    folder.manifest = *std::move(manifest);
    return folder;
  }
  const Failure& failure = manifest.failure();
  if (IsAway(failure)) return failure;
  const bool has_none = failure.kind == FailureKind::kNotFound;
  const bool is_unfinished = has_none && name != latest && !entry.is_link;
  folder.state = is_unfinished ? FolderState::kUnfinished : FolderState::kDamaged;
  folder.is_denied = IsDenied(failure);
  if (IsNewer(failure)) folder.state = FolderState::kNewer;
  folder.why = has_none ? "it has no manifest" : failure.message;
  if (has_none && name == latest) folder.why = "LATEST names it, and it has no manifest";
  if (has_none && entry.is_link)
    folder.why = "it is a link, and there is no manifest where it leads";
  return folder;
}

}  // namespace

bool IsCheckpointName(std::string_view name) { return SavedStepIn(name).has_value(); }

// The name in LATEST; "" if there is none or it is no checkpoint's name.
Result<std::string> LatestIn(Store* store) {
  const Result<std::string> text = store->Get(kLatestName, kLatestBytesMax);
  if (!text.ok() && IsAway(text.failure())) return text.failure();
  if (!text.ok()) return std::string();
  const std::string name(Trimmed(*text));
  return IsCheckpointName(name) ? name : std::string();
}

Result<Manifest> ReadManifest(Store* store, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text,
                   store->Get(KeyOf(name, kManifestName), kManifestBytesMax));
  ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(text));
  if (manifest.world_size == 0) return Failure{FailureKind::kInvalid, "the manifest is of a part"};
  if (SavedStepIn(name).value_or(manifest.saved()) != manifest.saved()) {
    return Failure{FailureKind::kDamaged,
                   Concat("the manifest is that of ", CheckpointNameOf(manifest.saved()))};
  }
  return manifest;
}

Result<Manifest> ReadManifest(const std::string& folder) {
  const size_t slash = folder.find_last_not_of('/');
  const std::string clean = folder.substr(0, slash == std::string::npos ? 0 : slash + 1);
  const size_t split = clean.rfind('/');
  if (split == std::string::npos) return ReadManifest(MakePosixStore(".").get(), clean);
  return ReadManifest(MakePosixStore(clean.substr(0, split)).get(), clean.substr(split + 1));
}

Result<Manifest> ReadPart(const std::string& folder, uint32_t rank) {
  ASSIGN_OR_RETURN(const std::string text,
                   MakePosixStore(folder)->Get(PartNameOf(rank), kManifestBytesMax));
  return ParseManifest(text);
}

KeptFolder KeptOf(const Listed& one, const std::string& latest) {
  return {.name = one.name,
          .is_whole = true,
          .is_latest = one.name == latest,
          .saved = one.manifest.saved(),
          .job_id = one.manifest.job_id};
}

Result<std::vector<Folder>> Folders(Store* store) {
  ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, store->List(""));
  ASSIGN_OR_RETURN(const std::string latest, LatestIn(store));
  std::vector<Folder> folders;
  for (const StoreEntry& entry : entries) {
    const std::optional<SavedStep> saved = SavedStepIn(entry.name);
    if (!entry.is_folder || !saved.has_value()) continue;
    ASSIGN_OR_RETURN(Folder folder, FolderOf(store, entry, latest));
    folder.saved = *saved;
    folders.push_back(std::move(folder));
  }
  std::sort(folders.begin(), folders.end(),
            [](const Folder& a, const Folder& b) { return a.saved > b.saved; });
  return folders;
}

Result<std::optional<int64_t>> UnfinishedNs(Store* store, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<StoreEntry> files, store->List(name));
  std::optional<int64_t> changed_ns = 0;
  for (const StoreEntry& file : files) {
    if (file.name == kManifestName) return std::optional<int64_t>();
    changed_ns = std::max(*changed_ns, file.changed_ns);
  }
  return changed_ns;
}

std::string Say(const PassedOver& one) { return Concat("passed over ", one.name, ": ", one.why); }

Result<std::vector<PassedOver>> PassedOverFor(Store* store, const std::string& taken,
                                              const std::set<std::string>& except) {
  ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, store->List(""));
  ASSIGN_OR_RETURN(const std::string latest, LatestIn(store));
  const SavedStep than = SavedStepIn(taken).value_or(SavedStep());
  std::vector<PassedOver> passed;
  for (const StoreEntry& entry : entries) {
    const std::optional<SavedStep> saved = SavedStepIn(entry.name);
    const bool is_newer = saved.has_value() && (*saved > than || entry.name == latest);
    if (!entry.is_folder || !is_newer || entry.name == taken) continue;
    if (except.contains(entry.name)) {
      passed.push_back({entry.name, "a restore found it damaged"});
      continue;
    }
    ASSIGN_OR_RETURN(Folder folder, FolderOf(store, entry, latest));
    const bool is_passed =
        folder.state != FolderState::kWhole && folder.state != FolderState::kUnfinished;
    if (is_passed) passed.push_back({entry.name, std::move(folder.why)});
  }
  return passed;
}

namespace {

// The folders that are whole, the last saved first.
std::vector<Listed> WholeIn(std::vector<Folder> folders, const std::string& latest) {
  std::vector<Listed> found;
  for (Folder& one : folders) {
    if (one.state == FolderState::kWhole) found.push_back({one.name, std::move(one.manifest)});
  }
  std::vector<KeptFolder> kept;
  for (const Listed& one : found) kept.push_back(KeptOf(one, latest));
  std::vector<Listed> sorted;
  for (const size_t i : NewestFirst(kept)) sorted.push_back(std::move(found[i]));
  return sorted;
}

}  // namespace

Result<std::vector<Listed>> List(Store* store) {
  ASSIGN_OR_RETURN(std::vector<Folder> all, Folders(store));
  ASSIGN_OR_RETURN(const std::string latest, LatestIn(store));
  return WholeIn(std::move(all), latest);
}

namespace {

// For each rank the lowest rank that has the same file. Empty if no file is shared, or if the
// manifest lacks ranks.
std::vector<uint32_t> SharedFiles(const Manifest& manifest) {
  std::map<std::string_view, uint32_t> first;
  for (const ManifestRank& rank : manifest.ranks) {
    const auto at = first.emplace(rank.file, rank.rank).first;
    at->second = std::min(at->second, rank.rank);
  }
  std::vector<uint32_t> file_of;
  const bool is_whole = manifest.ranks.size() == manifest.world_size;
  if (!is_whole || first.size() == manifest.ranks.size()) return file_of;
  file_of.resize(manifest.world_size);
  for (const ManifestRank& rank : manifest.ranks) {
    if (rank.rank < file_of.size()) file_of[rank.rank] = first.at(rank.file);
  }
  return file_of;
}

// The damaged checkpoint that was saved last. The caller reports that. To start anew instead would
// hide the damage.
std::optional<StoredCheckpoint> DamagedIn(const std::vector<Folder>& folders,
                                          const std::set<std::string>& except) {
  for (const Folder& one : folders) {
    if (one.state != FolderState::kDamaged || except.contains(one.name)) continue;
    return StoredCheckpoint{.name = one.name, .saved = one.saved};
  }
  return std::nullopt;
}

// The failure of a look that found a checkpoint which this process has no rights to read. Its
// content is unknown: it does not count as damaged, and no older one may replace it.
Failure Denied(const std::string& name, const std::string& why) {
  return {FailureKind::kSystem, Concat(name, ": ", why), EACCES};
}

// The newest checkpoint that the same job saved after `latest`, if LATEST was not updated because
// the commit was cut off. Unfinished folders are saves in progress.
Result<std::optional<Listed>> LaterThan(Store* store, const Manifest& latest,
                                        const std::set<std::string>& except) {
  ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, store->List(""));
  std::optional<Listed> found;
  for (const StoreEntry& entry : entries) {
    const SavedStep than = found.has_value() ? found->manifest.saved() : latest.saved();
    const bool may_be = entry.is_folder && SavedStepIn(entry.name).value_or(SavedStep()) > than &&
                        !except.contains(entry.name);
    if (!may_be) continue;
    Result<Manifest> manifest = ReadManifest(store, entry.name);
    if (!manifest.ok() && IsAway(manifest.failure())) return manifest.failure();
    if (!manifest.ok() && IsNewer(manifest.failure())) {
      return Annotate(manifest.failure(), entry.name);
    }
    if (!manifest.ok() && IsDenied(manifest.failure())) {
      return Denied(entry.name, manifest.failure().message);
    }
    if (!manifest.ok() || manifest->job_id != latest.job_id) continue;
    found = Listed{entry.name, *std::move(manifest)};
  }
  return found;
}

}  // namespace

namespace {

// An error of one file, such as a bad sector: what else was found still counts.
bool IsOfOneFile(const Failure& failure) {
  return !IsAway(failure) && !IsNewer(failure) && !IsDenied(failure);
}

// Fails with IsNewer if a newer version wrote a folder after `best` ("" means none), and with
// IsDenied if this process has no rights to read such a folder.
Result<void> CheckNothingNewer(const std::vector<Folder>& folders, const std::string& best,
                               const std::set<std::string>& except) {
  for (const Folder& one : folders) {
    if (one.name == best) return {};
    if (one.is_denied && !except.contains(one.name)) return Denied(one.name, one.why);
    if (one.state != FolderState::kNewer || except.contains(one.name)) continue;
    return Failure{FailureKind::kNotHere, Concat(one.name, ": ", one.why)};
  }
  return {};
}

}  // namespace

Result<std::optional<StoredCheckpoint>> Newest(Store* store, const std::set<std::string>& except) {
  const auto stored = [](const std::string& name, const Manifest& manifest) {
    return std::optional(StoredCheckpoint{.name = name,
                                          .job_id = manifest.job_id,
                                          .saved = manifest.saved(),
                                          .world_size = manifest.world_size,
                                          .file_of = SharedFiles(manifest)});
  };
  ASSIGN_OR_RETURN(const std::string latest, LatestIn(store));
  if (!latest.empty() && !except.contains(latest)) {
    const Result<Manifest> manifest = ReadManifest(store, latest);
    if (manifest.ok()) {
      const Result<std::optional<Listed>> later = LaterThan(store, *manifest, except);
      if (!later.ok() && !IsOfOneFile(later.failure())) return later.failure();
      const bool is_later = later.ok() && later->has_value();
      return is_later ? stored((*later)->name, (*later)->manifest) : stored(latest, *manifest);
    }
    if (IsAway(manifest.failure())) return manifest.failure();
    if (IsNewer(manifest.failure())) return Annotate(manifest.failure(), latest);
  }
  ASSIGN_OR_RETURN(const std::vector<Folder> folders, Folders(store));
  const std::vector<Listed> all = WholeIn(folders, latest);
  const auto best = std::find_if(all.begin(), all.end(),
                                 [&](const Listed& one) { return !except.contains(one.name); });
  RETURN_IF_ERROR(CheckNothingNewer(folders, best != all.end() ? best->name : "", except));
  if (best != all.end()) return stored(best->name, best->manifest);
  return DamagedIn(folders, except);
}

Result<std::optional<StoredCheckpoint>> Newest(const std::string& directory) {
  return Newest(MakePosixStore(directory).get());
}

std::vector<std::string> VerifyCheckpoint(Store* store, const std::string& name) {
  const Result<Manifest> manifest = ReadManifest(store, name);
  if (!manifest.ok()) return {manifest.failure().message};
  std::vector<std::string> wrong;
  std::vector<TensorBox> boxes;
  for (const ManifestFile& file : manifest->files) {
    auto source = store->Open(KeyOf(name, file.name), file.bytes);
    if (!source.ok()) {
      wrong.push_back(source.failure().message);
      continue;
    }
    if (const Result<void> holds = Verify(source->get(), file.hashes); !holds.ok()) {
      wrong.push_back(Concat(file.name, ": ", holds.failure().message));
      continue;
    }
    if (IsNotes(*manifest, file.name)) {
      const auto text = ReadAll(source->get(), file.hashes, kNotesBytesMax);
      const Result<void> notes = text.ok() ? CheckNotes(*text) : text.failure();
      if (!notes.ok()) wrong.push_back(Concat(file.name, ": ", notes.failure().message));
    }
    if (!file.name.starts_with("shard-")) continue;
    Result<Image> head = HeadOf(store, name, file);
    if (!head.ok()) {
      wrong.push_back(head.failure().message);
      continue;
    }
    std::move(head->boxes.begin(), head->boxes.end(), std::back_inserter(boxes));
  }
  if (!wrong.empty()) return wrong;
  if (const auto tiled = CheckTiling(std::move(boxes), OtherShapes::kOwn); !tiled.ok()) {
    wrong.push_back(tiled.failure().message);
  }
  return wrong;
}

}  // namespace paceline::ckpt
