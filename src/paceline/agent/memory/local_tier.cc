#include "paceline/agent/memory/local_tier.h"

#include <sys/stat.h>

#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "paceline/agent/memory/arena_room.h"
#include "paceline/base/file_text.h"
#include "paceline/base/hex.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/storage/image_files.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::agent {
namespace {

using nlohmann::json;

// Steps that stay on the disk beside the one being written.
constexpr size_t kOthersMax = 1;
constexpr uint64_t kImageJsonBytesMax = 4096;
constexpr char kImageSuffix[] = ".image.json";
constexpr std::string_view kPartSuffix = ".part.json";

std::string ImageNameOf(uint32_t rank) {
  std::string name = ckpt::PartNameOf(rank);
  name.resize(name.size() - kPartSuffix.size());
  return name + kImageSuffix;
}

std::string KeyOf(const std::string& folder, const std::string& file) {
  return Concat(folder, "/", file);
}

std::optional<MemoryImage> ImageIn(const std::string& text, const std::string& job_id) {
  const json one = ParseJson(text);
  if (!one.is_object() || JsonText(one, "schema") != "paceline.tier/1") return std::nullopt;
  const int64_t rank = JsonInt<int64_t>(one, "rank", -1);
  if (JsonText(one, "job_id") != job_id || rank < 0) return std::nullopt;
  uint64_t root = 0;
  const std::string digits = JsonText(one, "file_root");
  std::from_chars(digits.data(), digits.data() + digits.size(), root, 16);
  return MemoryImage{.rank = Rank(static_cast<uint32_t>(rank)),
                     .place = "",
                     .saved = {static_cast<uint64_t>(JsonInt<int64_t>(one, "generation", 0)),
                               JsonInt<int64_t>(one, "step", -1),
                               static_cast<uint64_t>(JsonInt<int64_t>(one, "branch", 0))},
                     .world_size = static_cast<uint32_t>(JsonInt<int64_t>(one, "world_size", 0)),
                     .file_bytes = static_cast<uint64_t>(JsonInt<int64_t>(one, "file_bytes", 0)),
                     .file_root = root,
                     .is_replica = JsonBool(one, "is_replica", false)};
}

}  // namespace

LocalTier::LocalTier(std::string path, std::string node, std::string job_id)
    : path_(std::move(path)),
      node_(std::move(node)),
      job_id_(std::move(job_id)),
      store_(ckpt::MakePosixStore(path_)) {}

bool LocalTier::Serves(const ckpt::Store& store) {
  if (!store.traits().has_paths) return true;
  struct stat found {};
  return ::stat(store.root().c_str(), &found) == 0 && IsFarAway(store.root());
}

std::string LocalTier::FolderOf(SavedStep saved) const { return FolderOf(CheckpointNameOf(saved)); }

std::vector<MemoryImage> LocalTier::Images() const {
  std::vector<MemoryImage> images;
  if (!is_on()) return images;
  const auto folders = store_->List("");
  if (!folders.ok()) return images;
  for (const ckpt::StoreEntry& folder : *folders) {
    const auto saved = SavedStepIn(folder.name);
    if (!saved.has_value()) continue;
    const auto files = store_->List(folder.name);
    if (!files.ok()) continue;
    for (const ckpt::StoreEntry& file : *files) {
      if (!file.name.ends_with(kImageSuffix)) continue;
      const auto text = store_->Get(KeyOf(folder.name, file.name), kImageJsonBytesMax);
      auto image = text.ok() ? ImageIn(*text, job_id_) : std::nullopt;
      if (!image.has_value() || image->saved != *saved) continue;
      image->place = place();
      images.push_back(*std::move(image));
    }
  }
  return images;
}

bool LocalTier::Has(uint32_t rank, SavedStep saved) const {
  if (!is_on()) return false;
  const auto found = store_->Has(KeyOf(CheckpointNameOf(saved), ImageNameOf(rank)));
  return found.ok() && *found;
}

LocalTier::Use::Use(LocalTier* tier, const std::string& name)
    : tier_(tier), place_([&] {
        const std::lock_guard lock(tier->mutex_);
        return tier->in_use_.insert(name);
      }()) {}

LocalTier::Use::~Use() {
  const std::lock_guard lock(tier_->mutex_);
  tier_->in_use_.erase(place_);
}

Result<void> LocalTier::MakeRoom() {
  const std::lock_guard lock(mutex_);
  if (!MakeDirs(path_, 0700).ok()) {
    return Failure{FailureKind::kSystem, Concat("cannot make ", path_)};
  }
  ASSIGN_OR_RETURN(const std::vector<ckpt::StoreEntry> entries, store_->List(""));
  std::map<SavedStep, std::string> others;
  for (const ckpt::StoreEntry& entry : entries) {
    const auto saved = SavedStepIn(entry.name);
    if (saved.has_value() && !in_use_.contains(entry.name)) others[*saved] = entry.name;
  }
  // Removes the oldest ones. A name stays until its files are gone; only this node looks here.
  while (others.size() > kOthersMax) {
    const std::string oldest = others.begin()->second;
    others.erase(others.begin());
    ASSIGN_OR_RETURN(const std::vector<ckpt::StoreEntry> files, store_->List(oldest));
    for (const bool is_word : {true, false}) {
      for (const ckpt::StoreEntry& file : files) {
        const bool says_whole =
            file.name.ends_with(kImageSuffix) || file.name == ckpt::kManifestName;
        if (says_whole == is_word) RETURN_IF_ERROR(store_->Remove(KeyOf(oldest, file.name)));
      }
      RETURN_IF_ERROR(store_->SyncNames(oldest));
    }
    RETURN_IF_ERROR(store_->RemoveFolder(oldest));
  }
  return {};
}

Result<void> LocalTier::Write(const ckpt::ShardPlace& place, const ckpt::ShardImage& image,
                              const ArenaImage& what, ckpt::Pacer* pacer) {
  const Use use(this, place.name);
  RETURN_IF_ERROR(MakeRoom());
  const std::string mark = KeyOf(place.name, ImageNameOf(place.rank));
  RETURN_IF_ERROR(store_->Remove(mark));
  RETURN_IF_ERROR(ckpt::WriteShard(store_.get(), place, image, pacer));
  // A rank whose tensors are in another rank's file has no complete image here.
  if (place.file_of != place.rank) return {};
  const json words = {{"schema", "paceline.tier/1"},
                      {"job_id", place.job_id},
                      {"rank", place.rank},
                      {"generation", place.saved.generation},
                      {"step", place.saved.step},
                      {"branch", place.saved.branch},
                      {"world_size", what.world_size},
                      {"file_bytes", what.file_bytes},
                      {"file_root", Hex(what.file_root)},
                      {"is_replica", (what.flags & kArenaReplica) != 0}};
  RETURN_IF_ERROR(ckpt::Put(store_.get(), mark, PrintJson(words), ckpt::Store::PutMode::kReplace));
  RETURN_IF_ERROR(store_->SyncNames(place.name));
  return store_->SyncNames("");
}

Result<void> LocalTier::Send(ckpt::Store* store, const ckpt::ShardPlace& place,
                             ckpt::Pacer* pacer) {
  if (!is_on()) return Failure{FailureKind::kNotFound, "this node keeps nothing on its disk"};
  const Use use(this, place.name);
  ASSIGN_OR_RETURN(const ckpt::Manifest part, ckpt::ReadPart(FolderOf(place.name), place.rank));
  if (part.saved() != place.saved || part.job_id != place.job_id) {
    return Failure{FailureKind::kNotFound, "what is on this node's disk is of another save"};
  }
  const ckpt::ManifestFile* small = part.Find(ckpt::NotesNameOf(place.rank));
  const bool has_own = part.Find(ckpt::FileNameOf(place.rank)) != nullptr;
  if (small == nullptr || (!has_own && place.file_of == place.rank)) {
    return Failure{FailureKind::kNotFound, "it is not on this node's disk"};
  }
  ckpt::OpenedImage file;
  if (has_own) {
    ASSIGN_OR_RETURN(file, ckpt::OpenImage(store_.get(), place.name, part, place.rank));
  }
  ASSIGN_OR_RETURN(const auto notes, store_->Open(KeyOf(place.name, small->name), small->bytes));
  const ckpt::ShardImage image{.file = file.source.get(),
                               .file_hashes = file.hashes,
                               .notes = notes.get(),
                               .notes_hashes = small->hashes};
  return ckpt::WriteShard(store, place, image, pacer);
}

Result<ckpt::Copied> LocalTier::Fetch(ckpt::Store* store, const std::string& name,
                                      const ckpt::CopyWish& wish) {
  if (!is_on()) return Failure{FailureKind::kNotFound, "there is no local disk to fetch to"};
  ASSIGN_OR_RETURN(const ckpt::Manifest manifest, ckpt::ReadManifest(store, name));
  const Use use(this, name);
  RETURN_IF_ERROR(MakeRoom());
  return ckpt::CopyCheckpoint(store, store_.get(), name, manifest, wish);
}

void LocalTier::RemoveAll() {
  if (!is_on()) return;
  const auto folders = store_->List("");
  if (!folders.ok()) return;
  for (const ckpt::StoreEntry& folder : *folders) {
    if (!SavedStepIn(folder.name).has_value()) continue;
    const auto files = store_->List(folder.name);
    if (!files.ok()) continue;
    for (const ckpt::StoreEntry& file : *files) {
      (void)store_->Remove(KeyOf(folder.name, file.name));
    }
    (void)store_->RemoveFolder(folder.name);
  }
  ckpt::SystemDisk()->RemoveFolder(path_);
}

}  // namespace paceline::agent
