#include "paceline/ckpt/storage/storage.h"

#include <algorithm>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/storage/gather.h"
#include "paceline/ckpt/storage/image_files.h"
#include "paceline/ckpt/storage/notes_file.h"
#include "paceline/ckpt/storage/tensor_contents.h"
#include "paceline/ckpt/store/posix.h"
#include "paceline/model/retention.h"

namespace paceline::ckpt {
namespace {

constexpr char kRemoving[] = ".removing-";

std::string Padded(uint32_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

Result<void> SetLatest(Store* store, const std::string& name) {
  RETURN_IF_ERROR(Put(store, kLatestName, name + "\n", Store::PutMode::kReplace));
  return store->SyncNames("");
}

// Whether this file's functions made it, in any attempt.
bool IsOurs(std::string_view file) {
  return file.starts_with(kManifestName) || file.starts_with("shard-") || file.starts_with("rank-");
}

// A partly removed checkpoint must not look complete, even after a crash. So its name, or its
// manifest, is removed durably before its first file.
Result<void> RemoveCheckpoint(Store* store, const std::string& name) {
  std::string going = name;
  if (store->traits().has_folders && !name.starts_with(kRemoving)) {
    going = kRemoving + name;
    RETURN_IF_ERROR(store->RenameFolder(name, going));
    RETURN_IF_ERROR(store->SyncNames(""));
  } else if (!store->traits().has_folders) {
    RETURN_IF_ERROR(store->Remove(KeyOf(name, kManifestName)));
    RETURN_IF_ERROR(store->SyncNames(name));
  }
  ASSIGN_OR_RETURN(const std::vector<StoreEntry> files, store->List(going));
  bool has_others = false;
  for (const StoreEntry& file : files) {
    has_others = has_others || !IsOurs(file.name);
    if (IsOurs(file.name)) RETURN_IF_ERROR(store->Remove(KeyOf(going, file.name)));
  }
  // Files of others stay, and so does their folder.
  return has_others ? Result<void>() : store->RemoveFolder(going);
}

// When the checkpoint's manifest was written; 0: unknown.
Result<int64_t> CommittedNs(Store* store, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<StoreEntry> files, store->List(name));
  for (const StoreEntry& file : files) {
    if (file.name == kManifestName) return file.changed_ns;
  }
  return int64_t{0};
}

// A delayed commit must not hide a newer checkpoint of the same job. Steps of other jobs do not
// count.
Result<void> CheckNotPassed(Store* store, const CommitPlace& place) {
  ASSIGN_OR_RETURN(const std::string latest, LatestIn(store));
  if (latest.empty() || latest == place.order.name) return {};
  // Then the manifest need not be read.
  if (SavedStepIn(latest).value_or(SavedStep()) < place.order.saved) return {};
  const Result<Manifest> newest = ReadManifest(store, latest);
  if (!newest.ok()) return IsAway(newest.failure()) ? newest.failure() : Result<void>();
  if (newest->job_id != place.job_id || newest->saved() < place.order.saved) return {};
  return Failure{FailureKind::kFenced, Concat(latest, " is newer than ", place.order.name)};
}

}  // namespace

std::string FileNameOf(uint32_t rank) { return "shard-" + Padded(rank) + ".safetensors"; }
std::string FrozenNameOf(uint32_t rank) { return "shard-" + Padded(rank) + "-frozen.safetensors"; }
std::string NotesNameOf(uint32_t rank) { return "rank-" + Padded(rank) + ".json"; }
std::string PartNameOf(uint32_t rank) { return "rank-" + Padded(rank) + ".part.json"; }

namespace {

// A file of the newest checkpoint with the same bytes, judged by their hashes.
struct Twin {
  std::string key;      // "": there is none
  Differing differing;  // of its checkpoint
};
Twin TwinOf(Store* store, const ManifestFile& file) {
  const Result<std::string> latest = LatestIn(store);
  if (!latest.ok() || latest->empty()) return {};
  Result<Manifest> manifest = ReadManifest(store, *latest);
  if (!manifest.ok()) return {};
  for (const ManifestFile& other : manifest->files) {
    if (other.bytes != file.bytes || other.hashes != file.hashes) continue;
    const std::string key = KeyOf(*latest, other.name);
    // A file that was truncated or removed cannot be linked.
    if (store->Open(key, file.bytes).ok()) return {key, std::move(manifest->differing)};
  }
  return {};
}

// Writes the file, and records the hash of each tensor.
Result<void> WriteHashed(Store* store, const std::string& key, ChunkSource* source, Pacer* pacer,
                         ManifestFile* file) {
  ASSIGN_OR_RETURN(const Image head, ParseHead(file->head, file->bytes));
  TensorContents hashed(source, head.boxes);
  RETURN_IF_ERROR(store->WriteImage(key, &hashed, file->hashes, pacer));
  file->contents = hashed.Finish();
  return {};
}

// Links the file if a twin exists, else writes it. For a linked file the former checkpoint tells
// which tensors differ between ranks.
Result<void> LinkOrWrite(Store* store, const std::string& key, ChunkSource* source, Pacer* pacer,
                         ManifestFile* file, Differing* differing) {
  const Twin twin = TwinOf(store, *file);
  if (twin.key.empty() || !store->Link(twin.key, key).ok()) {
    return WriteHashed(store, key, source, pacer, file);
  }
  ASSIGN_OR_RETURN(const Image head, ParseHead(file->head, file->bytes));
  for (const TensorBox& box : head.boxes) {
    const auto is_in = [&](const std::vector<std::string>& names) {
      return std::binary_search(names.begin(), names.end(), box.key);
    };
    if (is_in(twin.differing.parameters)) differing->parameters.push_back(box.key);
    if (is_in(twin.differing.others)) differing->others.push_back(box.key);
  }
  return {};
}

// Writes the one or two files of an image and adds them to `part`.
Result<void> WriteFiles(Store* store, const ShardPlace& place, const ShardImage& image,
                        Pacer* pacer, Manifest* part) {
  ASSIGN_OR_RETURN(Image head, ReadHead(image.file, image.file_hashes));
  const uint64_t second_at = head.second_at > 0 ? head.second_at : image.file->size();
  const auto split = image.file_hashes.begin() + static_cast<ptrdiff_t>(ChunkCount(second_at));
  ManifestFile file{
      FileNameOf(place.rank), second_at, {image.file_hashes.begin(), split}, std::move(head.head)};
  SourcePart changing(image.file, 0, second_at);
  RETURN_IF_ERROR(WriteHashed(store, KeyOf(place.name, file.name), &changing, pacer, &file));
  part->files.push_back(std::move(file));
  if (second_at == image.file->size()) return {};
  ManifestFile second{FrozenNameOf(place.rank),
                      image.file->size() - second_at,
                      {split, image.file_hashes.end()},
                      std::move(head.second_head)};
  SourcePart frozen(image.file, second_at, second.bytes);
  RETURN_IF_ERROR(LinkOrWrite(store, KeyOf(place.name, second.name), &frozen, pacer, &second,
                              &part->differing));
  part->files.push_back(std::move(second));
  return {};
}

}  // namespace

Result<void> WriteShard(Store* store, const ShardPlace& place, const ShardImage& image,
                        Pacer* pacer) {
  RETURN_IF_ERROR(store->MakeFolder(place.name));
  ASSIGN_OR_RETURN(const bool is_complete, store->Has(KeyOf(place.name, kManifestName)));
  if (is_complete) return Failure{FailureKind::kExists, place.name + " is complete"};
  Manifest part{.job_id = place.job_id,
                .generation = place.saved.generation,
                .step = place.saved.step,
                .branch = place.saved.branch,
                .files = {},
                .ranks = {}};
  if (place.file_of == place.rank) RETURN_IF_ERROR(WriteFiles(store, place, image, pacer, &part));
  const std::string notes_name = NotesNameOf(place.rank);
  ASSIGN_OR_RETURN(const std::string notes,
                   ReadAll(image.notes, image.notes_hashes, kNotesBytesMax));
  RETURN_IF_ERROR(Put(store, KeyOf(place.name, notes_name), notes, Store::PutMode::kReplace));
  part.files.push_back({notes_name, image.notes->size(), image.notes_hashes});
  part.ranks.push_back(
      {place.rank, FileNameOf(place.file_of), notes_name,
       part.Find(FrozenNameOf(place.rank)) != nullptr ? FrozenNameOf(place.rank) : ""});
  RETURN_IF_ERROR(Put(store, KeyOf(place.name, PartNameOf(place.rank)), ToText(part),
                      Store::PutMode::kReplace));
  return store->SyncNames(place.name);
}

Result<Manifest> Commit(Store* store, const CommitPlace& place) {
  const std::string& name = place.order.name;
  Result<Manifest> present = ReadManifest(store, name);
  if (!present.ok() && IsAway(present.failure())) return present.failure();
  RETURN_IF_ERROR(CheckNotPassed(store, place));
  if (!present.ok()) {
    ASSIGN_OR_RETURN(Manifest whole, Gather(store, place));
    const std::string text = ToText(whole);
    // A manifest that cannot be parsed must not become visible.
    RETURN_IF_ERROR(ParseManifest(text));
    const Result<void> put = Put(store, KeyOf(name, kManifestName), text, Store::PutMode::kNew);
    // Another node may have committed the same step, or our own earlier answer was lost.
    const bool was_there = !put.ok() && put.failure().kind == FailureKind::kExists;
    if (!put.ok() && !was_there) return put.failure();
    if (was_there) {
      ASSIGN_OR_RETURN(const Manifest theirs, ReadManifest(store, name));
      if (theirs != whole) return Failure{FailureKind::kFenced, name + " was committed otherwise"};
    }
    present = std::move(whole);
  }
  // First the files' names, then the folder's name, and only then LATEST become durable.
  RETURN_IF_ERROR(store->SyncNames(name));
  RETURN_IF_ERROR(store->SyncNames(""));
  RETURN_IF_ERROR(SetLatest(store, name));
  return *std::move(present);
}

void RemoveParts(Store* store, const PersistOrder& committed) {
  for (const PersistOrder::Shard& shard : committed.shards) {
    (void)store->Remove(KeyOf(committed.name, PartNameOf(shard.rank.value())));
  }
  if (!store->traits().has_paths) return;
  const auto entries = store->List(committed.name);
  if (!entries.ok()) return;
  for (const StoreEntry& entry : *entries) {
    const bool is_attempt = entry.name.find(".safetensors.new-") != std::string::npos;
    if (is_attempt) (void)store->Remove(KeyOf(committed.name, entry.name));
  }
}

Result<void> Prune(Store* store, uint32_t keep) {
  ASSIGN_OR_RETURN(std::vector<Listed> all, List(store));
  ASSIGN_OR_RETURN(std::vector<StoreEntry> entries, store->List(""));
  // Linked folders belong to another owner: they are neither counted nor removed.
  for (const StoreEntry& entry : entries) {
    if (entry.is_link)
      std::erase_if(all, [&](const Listed& one) { return one.name == entry.name; });
  }
  std::erase_if(entries, [](const StoreEntry& entry) { return entry.is_link; });
  if (all.empty()) return {};
  ASSIGN_OR_RETURN(const int64_t newest_ns, CommittedNs(store, all.front().name));
  Result<void> first;  // failure; the others are still tried
  const auto note = [&first](const Result<void>& result) {
    if (first.ok() && !result.ok()) first = result;
  };
  // First finish earlier removals, because their names may be needed again.
  for (const StoreEntry& entry : entries) {
    if (entry.name.starts_with(kRemoving)) note(RemoveCheckpoint(store, entry.name));
    const bool is_attempt = entry.name.starts_with(Concat(kLatestName, ".new-"));
    if (is_attempt && entry.changed_ns < newest_ns) note(store->Remove(entry.name));
  }
  ASSIGN_OR_RETURN(const std::string latest, LatestIn(store));
  std::vector<KeptFolder> folders;
  std::set<std::string> whole;
  for (const Listed& one : all) {
    folders.push_back(KeptOf(one, latest));
    folders.back().changed_ns = newest_ns;
    whole.insert(one.name);
  }
  for (const StoreEntry& entry : entries) {
    if (!entry.is_folder || !IsCheckpointName(entry.name) || whole.contains(entry.name)) continue;
    // A complete folder that cannot be read is kept as evidence.
    const Result<std::optional<int64_t>> changed_ns = UnfinishedNs(store, entry.name);
    if (!changed_ns.ok()) note(changed_ns.failure());
    if (!changed_ns.ok() || !changed_ns->has_value()) continue;
    const int64_t touched_ns = std::max(entry.changed_ns, **changed_ns);
    folders.push_back({.name = entry.name, .saved = {}, .changed_ns = touched_ns});
  }
  for (const size_t i : WhatMayGo(folders, keep)) note(RemoveCheckpoint(store, folders[i].name));
  return first;
}

Result<void> Remove(Store* store, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, store->List(""));
  bool is_link = false;
  const bool is_there = std::any_of(entries.begin(), entries.end(), [&](const StoreEntry& one) {
    if (one.name == name) is_link = one.is_link;
    return one.is_folder && one.name == name;
  });
  if (!IsCheckpointName(name) || !is_there) {
    return Failure{FailureKind::kNotFound, Concat("there is no checkpoint ", name)};
  }
  if (is_link) {
    return Failure{FailureKind::kInvalid,
                   Concat(name, " is a link: remove it, and what it leads to, by hand")};
  }
  RETURN_IF_ERROR(RemoveCheckpoint(store, name));
  ASSIGN_OR_RETURN(const std::vector<Listed> left, List(store));
  ASSIGN_OR_RETURN(const std::string latest, LatestIn(store));
  // A damaged checkpoint that LATEST names stays named: without that it would look unfinished.
  const auto is_named = [&](const auto& one) { return one.name == latest && latest != name; };
  const bool is_whole = std::any_of(left.begin(), left.end(), is_named);
  const bool stays = std::any_of(entries.begin(), entries.end(), is_named);
  if (stays && !is_whole) return store->SyncNames("");
  if (left.empty()) {
    RETURN_IF_ERROR(store->Remove(kLatestName));
  } else if (latest != left.front().name) {
    RETURN_IF_ERROR(SetLatest(store, left.front().name));
  }
  return store->SyncNames("");
}

}  // namespace paceline::ckpt
