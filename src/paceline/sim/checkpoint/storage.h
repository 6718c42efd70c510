#pragma once

// The directory of checkpoints that all hosts share, as ckpt/storage/storage.h keeps it, without
// bytes: shards, parts, manifests, LATEST. Every operation is cut into the stages between which a
// crash leaves something behind; the caller lets time pass between them.
//
// It can be full, away, or stand still, and what is in it can be torn, flipped or lost.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/retention.h"
#include "paceline/sim/checkpoint/arena.h"

namespace paceline::sim {

struct SimShard {
  SimImage image;
  bool is_whole = false;  // all its bytes are there
};

struct SimManifest {
  std::string job_id;
  SavedStep saved;
  uint32_t world_size = 0;
  std::vector<PersistOrder::Shard> shards;
  std::map<uint32_t, uint64_t> root_of;  // of each file, by its rank
};

struct SimFolder {
  std::map<uint32_t, SimShard> files;  // by rank
  struct Part {
    SavedStep saved;
    Rank file_of;
    uint64_t root = 0;  // of the file that it names, when it is its own
  };
  std::map<uint32_t, Part> parts;  // durable ones, by rank
  std::optional<SimManifest> manifest;
  Instant changed;
};

class Storage {
 public:
  using Folders = std::map<std::string, SimFolder>;

  // --- faults ---
  bool is_full = false;
  bool is_away = false;     // every operation fails
  bool is_stalled = false;  // none ends

  // Its bytes are not what they were. Nobody's bug, unless it can be seen before the commit.
  void Hurt(const std::string& name, bool is_visible);

  // --- stages; a text is why it failed ---
  // A file becomes visible at its end alone.
  std::string BeginShard(const std::string& name, Instant now);
  std::string EndShard(const std::string& name, const SimImage& image, Rank file_of, Instant now);
  // The manifest that would be written. `checks`: as it must be; without, a canary.
  std::string Assemble(const PersistOrder& order, bool checks, SimManifest* manifest);
  std::string WriteManifest(const std::string& name, const SimManifest& manifest, Instant now);
  std::string WriteLatest(const std::string& name);
  void RemoveParts(const std::string& name);
  // Removes what may go. `keeps_newest` false: a canary.
  void Prune(uint32_t keep, bool keeps_newest);

  std::string Newest(const std::set<std::string>& except,
                     std::optional<StoredCheckpoint>* found) const;

  // --- readers ---
  enum class Read { kWhole, kDamaged, kUnreadable };
  // What `rank` of a world of that size takes from it; `is_fetched`: from its host's disk.
  Read ReadFor(const std::string& name, uint32_t rank, uint32_t world_size, bool is_fetched,
               std::vector<SimImage>* images) const;

  // --- truth ---
  const Folders& folders() const { return folders_; }
  Folders& folders() { return folders_; }
  const std::string& latest() const { return latest_; }
  // Why this folder could not be restored from; empty: it could.
  std::string WhatIsWrongWith(const std::string& name) const;
  const std::set<std::string>& hurt() const { return hurt_; }
  // Some node has looked and got an answer.
  void NoteSeen() { was_seen_ = true; }
  bool was_seen() const { return was_seen_; }
  uint64_t removal_count() const { return removal_count_; }

 private:
  std::string Trouble() const { return is_away ? "input/output error" : ""; }
  std::string TroubleOfWriting() const;
  std::vector<KeptFolder> Kept() const;

  Folders folders_;
  std::string latest_;
  std::set<std::string> hurt_;
  bool was_seen_ = false;
  std::set<std::string> checked_;  // assembled; the manifest is on its way or there
  uint64_t removal_count_ = 0;
};

}  // namespace paceline::sim
