#include "paceline/sim/checkpoint/storage.h"

#include <algorithm>

namespace paceline::sim {
namespace {

// Checks that every rank's tensors are in a file, and that every file has its hash.
std::string CheckFolder(const SimFolder& folder, const SimManifest& manifest) {
  if (manifest.shards.size() != manifest.world_size) return "ranks are missing";
  for (const PersistOrder::Shard& shard : manifest.shards) {
    const auto file = folder.files.find(shard.file_of.value());
    const auto root = manifest.root_of.find(shard.file_of.value());
    if (file == folder.files.end()) return "shard " + ToString(shard.file_of) + " is missing";
    if (root == manifest.root_of.end()) return "shard " + ToString(shard.file_of) + " is no file";
    const SimImage& image = file->second.image;
    const bool holds = file->second.is_whole && !image.is_flipped && image.root() == root->second &&
                       image.saved == manifest.saved;
    if (!holds) return "shard " + ToString(shard.file_of) + " is damaged";
    if (shard.file_of != shard.rank && !image.is_replica) {
      return "the tensors of rank " + ToString(shard.rank) + " are in no file";
    }
  }
  return "";
}

// For each rank, the rank with the same file; empty if no file is shared.
std::vector<uint32_t> SharedFiles(const SimManifest& manifest) {
  std::vector<uint32_t> file_of(manifest.world_size);
  bool is_shared = false;
  for (const PersistOrder::Shard& shard : manifest.shards) {
    if (shard.rank.value() >= manifest.world_size) return {};
    file_of[shard.rank.value()] = shard.file_of.value();
    is_shared = is_shared || shard.file_of != shard.rank;
  }
  return is_shared ? file_of : std::vector<uint32_t>();
}

}  // namespace

std::string Storage::TroubleOfWriting() const {
  if (is_away) return Trouble();
  return is_full ? "no space left on device" : "";
}

std::string Storage::BeginShard(const std::string& name, Instant now) {
  if (const std::string why = TroubleOfWriting(); !why.empty()) return why;
  SimFolder& folder = folders_[name];
  if (!folder.manifest.has_value()) folder.changed = now;  // else already complete; see EndShard
  return "";
}

std::string Storage::EndShard(const std::string& name, const SimImage& image, Rank file_of,
                              Instant now) {
  if (const std::string why = TroubleOfWriting(); !why.empty()) return why;
  SimFolder& folder = folders_[name];
  if (folder.manifest.has_value()) return "";
  // Each chunk is compared with its hash while it is written.
  if (image.is_flipped) return "chunk 0 of the memory is damaged";
  folder.changed = now;
  const bool is_own = file_of.value() == image.rank;
  if (is_own) folder.files[image.rank] = {image, true};
  folder.parts[image.rank] = {image.saved, file_of, is_own ? image.root() : 0};
  return "";
}

void Storage::Hurt(const std::string& name, bool is_visible) {
  const bool is_late = checked_.contains(name) || folders_.at(name).manifest.has_value();
  if (is_late || !is_visible) hurt_.insert(name);
}

bool Storage::IsPassed(const PersistOrder& order) const {
  const auto latest = folders_.find(latest_);
  return latest != folders_.end() && latest_ != order.name && latest->second.manifest.has_value() &&
         latest->second.manifest->saved >= order.saved;
}

std::string Storage::Assemble(const PersistOrder& order, bool checks, SimManifest* manifest) {
  if (const std::string why = Trouble(); !why.empty()) return why;
  const auto found = folders_.find(order.name);
  if (found == folders_.end()) return order.name + " is not there";
  const SimFolder& folder = found->second;
  // A delayed commit must not hide a newer checkpoint.
  if (checks && IsPassed(order)) return latest_ + " is newer than " + order.name;
  if (folder.manifest.has_value()) {
    *manifest = *folder.manifest;
    return "";
  }
  *manifest = {.job_id = "sim",
               .saved = order.saved,
               .world_size = order.world_size,
               .shards = order.shards,
               .root_of = {}};
  for (const PersistOrder::Shard& shard : order.shards) {
    const auto part = folder.parts.find(shard.rank.value());
    if (part != folder.parts.end() && shard.file_of == shard.rank) {
      manifest->root_of[shard.rank.value()] = part->second.root;
    }
    if (!checks) continue;
    if (part == folder.parts.end()) return "the part of rank " + ToString(shard.rank) + " is gone";
    if (part->second.saved != order.saved || part->second.file_of != shard.file_of) {
      return "the part of rank " + ToString(shard.rank) + " is of another save";
    }
    // Each file's header is read and its boxes are compared; its bytes were hashed when written.
    const auto file = folder.files.find(shard.file_of.value());
    if (file == folder.files.end() || !file->second.is_whole) {
      return "shard " + ToString(shard.file_of) + " is missing";
    }
  }
  checked_.insert(order.name);
  return "";
}

std::string Storage::WriteManifest(const std::string& name, const SimManifest& manifest,
                                   Instant now) {
  if (const std::string why = TroubleOfWriting(); !why.empty()) return why;
  SimFolder& folder = folders_[name];
  if (!folder.manifest.has_value()) folder.manifest = manifest;
  folder.changed = now;
  return "";
}

std::string Storage::WriteLatest(const std::string& name) {
  if (const std::string why = TroubleOfWriting(); !why.empty()) return why;
  latest_ = name;
  return "";
}

void Storage::RemoveParts(const std::string& name) {
  const auto found = folders_.find(name);
  if (found != folders_.end() && !is_away) found->second.parts.clear();
}

std::vector<KeptFolder> Storage::Kept() const {
  std::vector<KeptFolder> kept;
  for (const auto& [name, folder] : folders_) {
    KeptFolder& one = kept.emplace_back();
    one.name = name;
    one.is_whole = folder.manifest.has_value();
    one.is_latest = name == latest_;
    if (one.is_whole) one.saved = folder.manifest->saved;
    one.changed_ns = folder.changed.nanoseconds();
  }
  return kept;
}

void Storage::Prune(uint32_t keep, bool keeps_newest) {
  if (is_away) return;
  const std::vector<KeptFolder> kept = Kept();
  std::vector<size_t> going = WhatMayGo(kept, keep);
  if (const std::vector<size_t> whole = NewestFirst(kept); !keeps_newest && !whole.empty()) {
    going = {whole.front()};
  }
  for (const size_t i : going) {
    folders_.erase(kept[i].name);
    ++removal_count_;
  }
}

std::string Storage::Newest(const std::set<std::string>& except,
                            std::optional<StoredCheckpoint>* found) const {
  found->reset();
  if (const std::string why = Trouble(); !why.empty()) return why;
  std::vector<KeptFolder> kept = Kept();
  std::erase_if(kept,
                [&](const KeptFolder& one) { return !one.is_whole || except.contains(one.name); });
  if (kept.empty()) return "";
  const KeptFolder& best = kept[NewestFirst(kept).front()];
  const SimManifest& manifest = *folders_.at(best.name).manifest;
  *found = {best.name, manifest.job_id, manifest.saved, manifest.world_size, SharedFiles(manifest)};
  return "";
}

Storage::Read Storage::ReadFor(const std::string& name, uint32_t rank, uint32_t world_size,
                               bool is_fetched, std::vector<SimImage>* images) const {
  images->clear();
  if (is_away && !is_fetched) return Read::kUnreadable;
  const auto found = folders_.find(name);
  if (found == folders_.end() || !found->second.manifest.has_value()) return Read::kDamaged;
  const SimFolder& folder = found->second;
  const SimManifest& manifest = *folder.manifest;
  for (const PersistOrder::Shard& shard : manifest.shards) {
    if (manifest.world_size == world_size && shard.rank.value() != rank) continue;
    const auto file = folder.files.find(shard.file_of.value());
    const auto root = manifest.root_of.find(shard.file_of.value());
    if (file == folder.files.end() || root == manifest.root_of.end()) return Read::kDamaged;
    const SimImage& image = file->second.image;
    const bool holds = file->second.is_whole && !image.is_flipped && image.root() == root->second;
    if (!holds) return Read::kDamaged;
    images->push_back(image);
    images->back().rank = shard.rank.value();
  }
  return images->empty() ? Read::kDamaged : Read::kWhole;
}

std::string Storage::WhatIsWrongWith(const std::string& name) const {
  const auto found = folders_.find(name);
  if (found == folders_.end()) return "it is not there";
  if (!found->second.manifest.has_value()) return "it has no manifest";
  return CheckFolder(found->second, *found->second.manifest);
}

}  // namespace paceline::sim
